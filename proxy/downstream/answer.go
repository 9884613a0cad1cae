package downstream

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Reasons of the transports' own, beside those of package adapter.
const (
	ReasonOrigin      adapter.Reason = "origin"
	ReasonHost        adapter.Reason = "host"
	ReasonTarget      adapter.Reason = "target"
	ReasonHTTPMethod  adapter.Reason = "http_method"
	ReasonContentType adapter.Reason = "content_type"
	ReasonAccept      adapter.Reason = "accept"
	ReasonHeader      adapter.Reason = "header"
	ReasonResponse    adapter.Reason = "response"
	ReasonBodySize    adapter.Reason = "body_size"
	ReasonHeaderSize  adapter.Reason = "header_size"
	ReasonSlowRequest adapter.Reason = "slow_request"
	ReasonBadHTTP     adapter.Reason = "bad_http"
	ReasonHTTPVersion adapter.Reason = "http_version"
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
	{adapter.ReasonDialect, 400, jsonrpc.CodeInvalidRequest, "`Holdfast-Dialect` names no dialect, or the request is of one that is switched off (`dialects`)"},

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

	{ReasonOrigin, 403, jsonrpc.CodeInvalidRequest, "`Origin` is not among the allowed ones"},
	{ReasonHost, 403, jsonrpc.CodeInvalidRequest, "`Host` is not among the allowed ones"},
	{ReasonTarget, 400, jsonrpc.CodeInvalidRequest, "the request target is no path"},
	{ReasonHTTPMethod, 405, jsonrpc.CodeInvalidRequest, "the endpoint takes POST only"},
	{ReasonContentType, 415, jsonrpc.CodeInvalidRequest, "`Content-Type` is not `application/json`, or the body has a `Content-Encoding`"},
	{ReasonAccept, 406, jsonrpc.CodeInvalidRequest, "`Accept` does not admit both `application/json` and `text/event-stream`"},
	{ReasonHeader, 400, jsonrpc.CodeInvalidRequest, "a header that must stand once stands twice, or is continued on a second line"},
	{ReasonResponse, 400, jsonrpc.CodeInvalidRequest, "the message is a JSON-RPC response, which clients of this revision do not send"},
	{ReasonBodySize, 413, jsonrpc.CodeInvalidRequest, "the body, or the line on standard input, is larger than the limit"},
	{ReasonHeaderSize, 431, jsonrpc.CodeInvalidRequest, "the header is larger than the limit"},
	{ReasonSlowRequest, 408, jsonrpc.CodeInvalidRequest, "the request did not arrive in time"},
	{ReasonBadHTTP, 400, jsonrpc.CodeInvalidRequest, "the request is no valid HTTP"},
	{ReasonHTTPVersion, 505, jsonrpc.CodeInvalidRequest, "this method needs a stream, which HTTP/1.0 does not have"},
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

// Refuse makes the error that ends a request for a reason. detail is for the
// client: never a secret.
func Refuse(reason adapter.Reason, detail string) *adapter.Refusal {
	return &adapter.Refusal{Reason: reason, Detail: detail}
}

// Reply is an error as the client sees it.
type Reply struct {
	Status       int            // of HTTP
	Reason       adapter.Reason // empty when it is not of our own
	Err          jsonrpc.Error
	RetryAfter   time.Duration         // when it is worth trying again; zero says nothing
	Unauthorized *adapter.Unauthorized // the server's own words, for a transport that has credentials
	Unexpected   error                 // what the client is not told, and is our fault
	Cause        error                 // what the client is not told
}

// ReplyTo renders an error: the one place that turns one into an answer.
func ReplyTo(err error) Reply {
	var refusal *adapter.Refusal
	var envelope *jsonrpc.Error
	var unauthorized *adapter.Unauthorized
	switch {
	case errors.As(err, &refusal):
		return ReplyToRefusal(refusal)
	case errors.As(err, &envelope):
		return Reply{Status: StatusOf(envelope.Code, fasthttp.StatusBadRequest), Err: jsonrpc.Error{
			Code: envelope.Code, Message: envelope.Message, Data: envelope.Data,
		}}
	case errors.As(err, &unauthorized):
		return Reply{Status: unauthorized.Status, Unauthorized: unauthorized, Err: jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: "The server refused the credentials of this request (HTTP " + strconv.Itoa(unauthorized.Status) + ")",
		}}
	}
	r := ReplyToRefusal(Refuse(adapter.ReasonInternal, "Internal error"))
	r.Unexpected = err
	return r
}

// ReplyToRefusal renders a refusal.
func ReplyToRefusal(refusal *adapter.Refusal) Reply {
	answer, ok := answerOf[refusal.Reason]
	if !ok {
		r := ReplyToRefusal(Refuse(adapter.ReasonInternal, "Internal error"))
		r.Unexpected = refusal
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
	r := Reply{Status: answer.Status, Reason: refusal.Reason, RetryAfter: refusal.RetryAfter, Err: jsonrpc.Error{
		Code: answer.Code, Message: refusal.Detail, Data: append(data, '}'),
	}}
	if r.Cause = refusal.Err; refusal.Reason == adapter.ReasonInternal {
		r.Unexpected = refusal.Err
	}
	return r
}

// Explain puts into an outcome why a lasting call has failed, where that was not
// the server's word.
func Explain(o *adapter.Outcome) {
	if o.Standing == nil || o.Standing.Failure == nil {
		return
	}
	reply := ReplyTo(o.Standing.Failure)
	o.Error, o.Standing.Failure = jsonrpc.Get(jsonrpc.AppendError(nil, []byte("0"), &reply.Err), "error"), nil
}

// StatusOf gives a JSON-RPC error its HTTP status (spec 2026-07-28,
// basic/transports/streamable-http, "Protocol Version Header" and "Server
// Validation"; basic/index, "_meta"); other is the status of codes that the
// specification says nothing of.
func StatusOf(code, other int) int {
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

// Log logs an error that a client is told.
func (r *Reply) Log(log *zerolog.Logger, method string) {
	if r.Unexpected != nil {
		log.Error().Err(r.Unexpected).Str("method", method).Msg("request ended with an unexpected error")
	} else if e := log.Debug(); e != nil {
		if r.Cause != nil {
			e = e.Str("cause", short(r.Cause.Error()))
		}
		e.Str("reason", string(r.Reason)).Int("code", r.Err.Code).Str("error", r.Err.Message).Msg("request refused")
	}
}

// maxCause bounds a cause in the log.
const maxCause = 1 << 10

// short keeps the beginning and the end of a text that is too long.
func short(text string) string {
	if len(text) <= maxCause {
		return text
	}
	return strings.ToValidUTF8(text[:maxCause/2], "") + " [...] " + strings.ToValidUTF8(text[len(text)-maxCause/2:], "")
}
