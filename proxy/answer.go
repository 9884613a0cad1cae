package proxy

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Reasons of the proxy's own, beside those of package adapter.
const (
	reasonOrigin      adapter.Reason = "origin"
	reasonHost        adapter.Reason = "host"
	reasonTarget      adapter.Reason = "target"
	reasonHTTPMethod  adapter.Reason = "http_method"
	reasonContentType adapter.Reason = "content_type"
	reasonAccept      adapter.Reason = "accept"
	reasonHeader      adapter.Reason = "header"
	reasonResponse    adapter.Reason = "response"
	reasonBodySize    adapter.Reason = "body_size"
	reasonHeaderSize  adapter.Reason = "header_size"
	reasonSlowRequest adapter.Reason = "slow_request"
	reasonBadHTTP     adapter.Reason = "bad_http"
	reasonHTTPVersion adapter.Reason = "http_version"
)

// Answer is how a reason reaches the client.
type Answer struct {
	Reason  adapter.Reason
	Status  int // of HTTP, when the answer is no stream yet
	Code    int // of the JSON-RPC error
	Meaning string
}

// answers turns reasons into answers: the only place that does. Errors that
// end a call which was rightly asked for have status 200, because real
// clients show their user a JSON-RPC error only from a 200 or a 400.
var answers = []Answer{
	{adapter.ReasonInvalidParams, 400, jsonrpc.CodeInvalidParams, "`params` or its `_meta` is not as the method or the revision wants it"},
	{adapter.ReasonMethodNotFound, 404, jsonrpc.CodeMethodNotFound, "the revision or the server has no such method"},
	{adapter.ReasonHeaderMismatch, 400, mcp.CodeHeaderMismatch, "a header that mirrors the body is missing, repeated, malformed or differs from the body"},
	{adapter.ReasonMissingCapability, 400, mcp.CodeMissingCapability, "the server asked for something that the client did not declare; `data.requiredCapabilities` says what"},

	{adapter.ReasonStateInvalid, 400, jsonrpc.CodeInvalidParams, "the request state was changed, cut, or never came from here"},
	{adapter.ReasonStateUnknown, 400, jsonrpc.CodeInvalidParams, "the request state was sealed with a key that this replica lacks"},
	{adapter.ReasonStateForeign, 400, jsonrpc.CodeInvalidParams, "the request state belongs to another principal, request or upstream"},
	{adapter.ReasonStateStale, 400, jsonrpc.CodeInvalidParams, "the request state is of a round that is over, and its outcome is no longer kept"},
	{adapter.ReasonStateExpired, 400, jsonrpc.CodeInvalidParams, "the request state is past its expiry: call again from the start"},

	{adapter.ReasonCallLost, 200, jsonrpc.CodeInternal, "the call is no longer held anywhere"},
	{adapter.ReasonCallTimeout, 200, jsonrpc.CodeInternal, "the server was silent for `calls.timeout`"},
	{adapter.ReasonCallDuration, 200, jsonrpc.CodeInternal, "the call lasted longer than `calls.max_duration`"},
	{adapter.ReasonTooManyRounds, 200, jsonrpc.CodeInternal, "the call took more rounds than `calls.max_rounds`"},
	{adapter.ReasonSlowClient, 200, jsonrpc.CodeInternal, "the client read its stream too slowly"},
	{adapter.ReasonOverload, 503, jsonrpc.CodeInternal, "this replica is at a limit; `Retry-After` says when to try again"},
	{adapter.ReasonQuota, 429, jsonrpc.CodeInternal, "this principal is at a limit; `Retry-After` says when to try again"},
	{adapter.ReasonBusDown, 503, jsonrpc.CodeInternal, "another replica may hold the call, and was not reached: try again"},
	{adapter.ReasonShutdown, 503, jsonrpc.CodeInternal, "this replica is stopping: try again"},
	{adapter.ReasonUpstreamDown, 200, jsonrpc.CodeInternal, "no connection to the server, or no session with it"},
	{adapter.ReasonUpstreamLost, 200, jsonrpc.CodeInternal, "the connection to the server broke before it answered"},
	{adapter.ReasonUpstreamStatus, 200, jsonrpc.CodeInternal, "the server answered with an HTTP status that has no place here"},
	{adapter.ReasonUpstreamReply, 200, jsonrpc.CodeInternal, "the server's answer was no legal JSON-RPC, or larger than `upstream.max_message`"},
	{adapter.ReasonInternal, 500, jsonrpc.CodeInternal, "an error in Holdfast; its log says more"},

	{reasonOrigin, 403, jsonrpc.CodeInvalidRequest, "`Origin` is not among the allowed ones"},
	{reasonHost, 403, jsonrpc.CodeInvalidRequest, "`Host` is not among the allowed ones"},
	{reasonTarget, 400, jsonrpc.CodeInvalidRequest, "the request target is no path"},
	{reasonHTTPMethod, 405, jsonrpc.CodeInvalidRequest, "the endpoint takes POST only"},
	{reasonContentType, 415, jsonrpc.CodeInvalidRequest, "`Content-Type` is not `application/json`, or the body has a `Content-Encoding`"},
	{reasonAccept, 406, jsonrpc.CodeInvalidRequest, "`Accept` does not admit both `application/json` and `text/event-stream`"},
	{reasonHeader, 400, jsonrpc.CodeInvalidRequest, "a header that must stand once stands twice, or is continued on a second line"},
	{reasonResponse, 400, jsonrpc.CodeInvalidRequest, "the body is a JSON-RPC response, which clients of this revision do not send"},
	{reasonBodySize, 413, jsonrpc.CodeInvalidRequest, "the body is larger than the limit"},
	{reasonHeaderSize, 431, jsonrpc.CodeInvalidRequest, "the header is larger than the limit"},
	{reasonSlowRequest, 408, jsonrpc.CodeInvalidRequest, "the request did not arrive in time"},
	{reasonBadHTTP, 400, jsonrpc.CodeInvalidRequest, "the request is no valid HTTP"},
	{reasonHTTPVersion, 505, jsonrpc.CodeInvalidRequest, "this method needs a stream, which HTTP/1.0 does not have"},
}

// Reasons lists what data.reason of an error may say, and how each is
// answered.
func Reasons() []Answer { return append([]Answer(nil), answers...) }

var answerOf = func() map[adapter.Reason]Answer {
	m := make(map[adapter.Reason]Answer, len(answers))
	for _, a := range answers {
		m[a.Reason] = a
	}
	return m
}()

func refuse(reason adapter.Reason, detail string) *adapter.Refusal {
	return &adapter.Refusal{Reason: reason, Detail: detail}
}

// reply is an error as the client sees it.
type reply struct {
	status       int
	reason       adapter.Reason // empty when it is not of our own
	err          jsonrpc.Error
	retryAfter   time.Duration
	unauthorized *adapter.Unauthorized
	unexpected   error // what the client is not told
}

// replyTo renders an error: the one place that turns one into an answer.
func replyTo(err error) reply {
	var refusal *adapter.Refusal
	var envelope *jsonrpc.Error
	var unauthorized *adapter.Unauthorized
	switch {
	case errors.As(err, &refusal):
		return replyToRefusal(refusal)
	case errors.As(err, &envelope):
		return reply{status: statusOf(envelope.Code, fasthttp.StatusBadRequest), err: jsonrpc.Error{
			Code: envelope.Code, Message: envelope.Message, Data: envelope.Data,
		}}
	case errors.As(err, &unauthorized):
		return reply{status: unauthorized.Status, unauthorized: unauthorized, err: jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: "The server refused the credentials of this request (HTTP " + strconv.Itoa(unauthorized.Status) + ")",
		}}
	}
	r := replyToRefusal(refuse(adapter.ReasonInternal, "Internal error"))
	r.unexpected = err
	return r
}

func replyToRefusal(refusal *adapter.Refusal) reply {
	answer, ok := answerOf[refusal.Reason]
	if !ok {
		r := replyToRefusal(refuse(adapter.ReasonInternal, "Internal error"))
		r.unexpected = refusal
		return r
	}
	data := append([]byte(`{"reason":"`), refusal.Reason...)
	data = append(data, '"')
	if refusal.MayHaveRun {
		data = append(data, `,"mayHaveRun":true`...)
	}
	if len(refusal.Required) > 0 {
		data = append(data, `,"requiredCapabilities":`...)
		data = append(data, refusal.Required...)
	}
	r := reply{status: answer.Status, reason: refusal.Reason, retryAfter: refusal.RetryAfter, err: jsonrpc.Error{
		Code: answer.Code, Message: refusal.Detail, Data: append(data, '}'),
	}}
	if refusal.Reason == adapter.ReasonInternal {
		r.unexpected = refusal.Err
	}
	return r
}

// statusOf gives a JSON-RPC error its HTTP status (spec 2026-07-28,
// basic/transports/streamable-http, "Protocol Version Header" and "Server
// Validation"; basic/index, "_meta"); other is the status of codes that the
// specification says nothing of.
func statusOf(code, other int) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return fasthttp.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return fasthttp.StatusBadRequest
	case jsonrpc.CodeInternal:
		return max(other, fasthttp.StatusInternalServerError)
	}
	return other
}

// statusOfOutcome is the HTTP status of a round that ended well or with the
// server's own error, which is a rightful answer to a rightful request.
func statusOfOutcome(o *adapter.Outcome) int {
	if o.Raw {
		return o.Status
	}
	if o.Error == nil {
		return fasthttp.StatusOK
	}
	code, err := strconv.Atoi(string(jsonrpc.Get(o.Error, "code")))
	if err != nil || code == jsonrpc.CodeInternal {
		return fasthttp.StatusOK
	}
	return statusOf(code, fasthttp.StatusOK)
}

// write sends the reply as a plain answer.
func (r *reply) write(resp *fasthttp.Response, id []byte) {
	resp.SetStatusCode(r.status)
	if r.retryAfter > 0 {
		seconds := (r.retryAfter + time.Second - 1) / time.Second
		resp.Header.Set(fasthttp.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	if u := r.unauthorized; u != nil {
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
	resp.SwapBody(jsonrpc.AppendError(resp.SwapBody(nil)[:0], id, &r.err))
}

func isJSONRPC(body []byte) bool {
	return jsonrpc.Validate(body, jsonrpc.Strict, 64) == nil && jsonrpc.Get(body, "jsonrpc") != nil
}

// appendEvent appends the reply as the last event of a stream.
func (r *reply) appendEvent(dst, id []byte) []byte {
	start := len(dst)
	return endEvent(jsonrpc.AppendError(beginEvent(dst), id, &r.err), start)
}

var jsonMedia = []byte("application/json")
