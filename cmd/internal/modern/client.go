package modern

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// ErrTimeout: a request got no answer within Client.Timeout.
var ErrTimeout = errors.New("no answer in time")

// Client talks to one MCP endpoint. Set the fields before the first request;
// Endpoint, Name and Release are needed.
type Client struct {
	Endpoint string
	Name     string // of clientInfo
	Release  string // of clientInfo: its version

	Header       http.Header // sent with every request, besides the protocol's own headers
	Capabilities Capabilities
	LogLevel     string        // one of LogLevels; "" asks for no log messages
	Progress     bool          // ask for progress notifications of calls
	Timeout      time.Duration // of one request, from sending to the last byte; zero means none

	Trace    Tracer   // may be nil
	Listener Listener // may be nil

	// HTTP carries the requests; nil means one with NewHTTP's settings that
	// all clients share.
	HTTP *http.Client

	ids atomic.Int64
}

// Capabilities says what the client can be asked for inside a call.
type Capabilities struct {
	Elicitation bool // forms and URLs
	Sampling    bool // text, without tools
	Roots       bool
}

// Tracer sees what goes over the wire, in order, in the goroutine of the
// request. It must not keep or change what it is given.
type Tracer interface {
	Request(r *http.Request, body []byte)
	Response(r *http.Response)
	Body(data []byte) // the whole body of an answer that is no stream
	Event(e Event)    // each event of a stream, as it comes
}

// Listener hears what comes before an answer, in the goroutine of the request.
type Listener interface {
	Progress(p Progress)
	Log(m LogMessage)
	// Waiting is called when the server is not ready and asks for nothing:
	// the call is sent again after the pause.
	Waiting(pause time.Duration)
}

// NewHTTP returns an HTTP client for MCP: redirects are answers, not followed,
// because a POST with credentials must not wander; nothing is unpacked, so
// that events come as they are sent.
func NewHTTP() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var sharedHTTP = NewHTTP()

func (c *Client) http() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return sharedHTTP
}

// request is one JSON-RPC request before it has an id.
type request struct {
	method  string
	name    string   // what Mcp-Name mirrors; only with mirrored
	named   bool     // the method has an Mcp-Name
	params  []Member // without _meta
	headers []Member // Mcp-Param-*: name and raw value
	token   string   // progress token; "" asks for no progress
}

// send posts one request and returns its result. The error is a *RPCError, a
// *HTTPError, or one that tells why there was no answer.
func (c *Client) send(ctx context.Context, r request) (jsontext.Value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s: %w (%v)", r.method, ErrTimeout, c.Timeout))
		defer stop()
	}
	id := c.ids.Add(1)
	post, body, err := c.post(ctx, id, r)
	if err != nil {
		return nil, err
	}
	if c.Trace != nil {
		c.Trace.Request(post, body)
	}
	response, err := c.http().Do(post)
	if err != nil {
		return nil, ended(ctx, fmt.Errorf("%s: %w", r.method, err))
	}
	defer func() { _ = response.Body.Close() }()
	if c.Trace != nil {
		c.Trace.Response(response)
	}
	result, err := c.read(response, answerTo{id: strconv.FormatInt(id, 10), token: r.token})
	refused := new(RPCError)
	if err != nil && !errors.As(err, &refused) {
		return nil, ended(ctx, err)
	}
	finishBody(response.Body, cancel)
	return result, err
}

// finishBody reads what is left of a body whose answer has come, so that the
// server does not take the close for a cancellation and the connection can
// serve the next round. A server that does not end it is not waited for long.
func finishBody(body io.Reader, cancel context.CancelFunc) {
	const patience, most = 250 * time.Millisecond, 64 << 10
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(body, most))
}

// ended prefers the reason why the context ended to what it broke.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// post builds the HTTP request and its body.
func (c *Client) post(ctx context.Context, id int64, r request) (*http.Request, []byte, error) {
	number := strconv.FormatInt(id, 10)
	params := append(r.params[:len(r.params):len(r.params)], Member{"_meta", c.meta(r.token)})
	body := Object(
		Member{"jsonrpc", Quote("2.0")},
		Member{"id", jsontext.Value(number)},
		Member{"method", Quote(r.method)},
		Member{"params", Object(params...)},
	)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.method, err)
	}
	for name, values := range c.Header {
		post.Header[name] = values
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	post.Header.Set(headerVersion, Version)
	post.Header.Set(headerMethod, r.method)
	if r.named {
		post.Header.Set(headerName, mcp.HeaderValue(r.name))
	}
	for _, header := range r.headers {
		post.Header.Set(header.Name, string(header.Value))
	}
	return post, body, nil
}

// meta is the context that every request carries (spec, basic/index, "_meta").
func (c *Client) meta(token string) jsontext.Value {
	empty := jsontext.Value("{}")
	var capabilities []Member
	if c.Capabilities.Elicitation {
		capabilities = append(capabilities, Member{"elicitation", Object(Member{"form", empty}, Member{"url", empty})})
	}
	if c.Capabilities.Sampling {
		capabilities = append(capabilities, Member{"sampling", empty})
	}
	if c.Capabilities.Roots {
		capabilities = append(capabilities, Member{"roots", empty})
	}
	members := []Member{
		{metaVersion, Quote(Version)},
		{metaClientInfo, Object(Member{"name", Quote(c.Name)}, Member{"version", Quote(c.Release)})},
		{metaCapabilities, Object(capabilities...)},
	}
	if c.LogLevel != "" {
		members = append(members, Member{metaLogLevel, Quote(c.LogLevel)})
	}
	if token != "" {
		members = append(members, Member{metaProgress, Quote(token)})
	}
	return Object(members...)
}

// readAll reads a body of at most MaxMessage bytes.
func readAll(body io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, MaxMessage+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxMessage {
		return nil, ErrTooLarge
	}
	return data, nil
}
