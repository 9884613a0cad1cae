package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// bare is a target: the least that an adapter does to a call, without a single
// check, on the HTTP library that Holdfast is on. What it takes is the floor on
// the machine of the run.
const bare = "bare"

// adapter is this target. As many calls go through it at a time as it has
// relays.
type adapter struct {
	relays []*load.Relay
	free   chan int
}

// serveBare is this program as the adapter in front of the server at o.peer.
func serveBare(ctx context.Context, o options, stdout io.Writer) error {
	if _, err := proc.Files(); err != nil {
		return err
	}
	a := &adapter{free: make(chan int, o.concurrency)}
	for i := range o.concurrency {
		r, err := load.NewRelay(o.peer, endpoint)
		if err != nil {
			return err
		}
		defer r.Close()
		a.relays = append(a.relays, r)
		a.free <- i
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", l.Addr())
	server := &fasthttp.Server{Handler: a.serve, NoDefaultServerHeader: true, NoDefaultContentType: true}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case <-ctx.Done():
		return l.Close()
	case err := <-done:
		return err
	}
}

func (a *adapter) serve(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetContentType("application/json")
	body := ctx.Request.Body()
	if string(ctx.Request.Header.Peek("Mcp-Method")) == "server/discover" {
		respond(ctx, body, `"supportedVersions":["2026-07-28"]}}`)
		return
	}
	if err := a.call(ctx, body); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadGateway)
	}
}

// call serves a round of a call. Its request state is the number of the relay
// that waits.
func (a *adapter) call(ctx *fasthttp.RequestCtx, body []byte) error {
	params := wire.Get(body, "params")
	if state := wire.Text(wire.Get(params, "requestState")); state != nil {
		i, err := strconv.Atoi(string(state))
		if err != nil {
			return err
		}
		answers := wire.Object(wire.Get(params, "inputResponses"))
		answers.Next()
		result, err := a.relays[i].Answer(answers.Value)
		if err == nil {
			respond(ctx, body, `"resultType":"complete",`, string(result[1:]), "}")
		}
		a.free <- i
		return err
	}
	i := <-a.free
	result, asked, err := a.relays[i].Call(body)
	switch {
	case err != nil:
		a.free <- i
	case asked == nil:
		respond(ctx, body, `"resultType":"complete",`, string(result[1:]), "}")
		a.free <- i
	default:
		respond(ctx, body, `"resultType":"input_required","requestState":"`, strconv.Itoa(i),
			`","inputRequests":{"elicitation-1":{"method":"elicitation/create","params":`, string(asked), "}}}}")
	}
	return err
}

// respond answers a request with a result in parts, behind its opening brace.
func respond(ctx *fasthttp.RequestCtx, request []byte, result ...string) {
	r := &ctx.Response
	r.AppendBodyString(`{"jsonrpc":"2.0","id":`)
	r.AppendBody(wire.Get(request, "id"))
	r.AppendBodyString(`,"result":{`)
	for _, part := range result {
		r.AppendBodyString(part)
	}
}

// startBare starts the adapter in front of a server.
func (b *trial) startBare(ctx context.Context, upstream string) (*server, error) {
	child, err := b.startSelf(bare, "-role", bare, "-peer", upstream, "-concurrency", strconv.Itoa(b.concurrency))
	if err != nil {
		return nil, err
	}
	s := &server{Child: child}
	if err := s.listening(ctx); err != nil {
		return nil, err
	}
	b.command("go run ./test/bench -role bare -peer SERVER")
	return s, nil
}
