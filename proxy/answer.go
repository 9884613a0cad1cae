package proxy

import (
	"cmp"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// statusOfOutcome is the HTTP status of a round that ended well or with the
// server's own error, which is a rightful answer to a rightful request.
func statusOfOutcome(o *adapter.Outcome) int {
	if o.Raw {
		return o.Status
	}
	if o.Error == nil || o.Standing != nil { // a task that has failed was found all the same
		return fasthttp.StatusOK
	}
	code, err := strconv.Atoi(string(jsonrpc.Get(o.Error, "code")))
	if err != nil || code == jsonrpc.CodeInternal {
		return fasthttp.StatusOK
	}
	return downstream.StatusOf(code, fasthttp.StatusOK)
}

// write sends an error as a plain answer.
func write(resp *fasthttp.Response, id []byte, r *downstream.Reply) {
	resp.SetStatusCode(r.Status)
	if r.RetryAfter > 0 {
		seconds := (r.RetryAfter + time.Second - 1) / time.Second
		resp.Header.Set(fasthttp.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	if u := r.Unauthorized; u != nil {
		for _, challenge := range u.Authenticate {
			resp.Header.Add(fasthttp.HeaderWWWAuthenticate, challenge)
		}
		// A JSON-RPC error would be for the request as the server got it, whose id
		// is not the client's.
		if len(u.Body) > 0 && !isJSONRPC(u.Body) {
			resp.Header.SetContentType(cmp.Or(u.ContentType, "application/octet-stream"))
			resp.SetBody(u.Body)
			return
		}
	}
	resp.Header.SetContentTypeBytes(jsonMedia)
	resp.SwapBody(jsonrpc.AppendError(resp.SwapBody(nil)[:0], id, &r.Err))
}

func isJSONRPC(body []byte) bool {
	return jsonrpc.Validate(body, jsonrpc.Strict, 64) == nil && jsonrpc.Get(body, "jsonrpc") != nil
}

// appendReply appends an error as the last event of a stream.
func appendReply(dst, id []byte, r *downstream.Reply) []byte {
	start := len(dst)
	return endEvent(jsonrpc.AppendError(beginEvent(dst), id, &r.Err), start)
}

var jsonMedia = []byte("application/json")
