package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// instant is an engine in memory whose calls have their result at once.
type instant struct{ event adapter.Event }

func newInstant() *instant {
	return &instant{adapter.Event{Outcome: &adapter.Outcome{
		Method: "tools/call", Result: []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 900) + `"}]}`),
		ServerInfo: []byte(`{"name":"srv","version":"1"}`),
	}}}
}

func (i *instant) Begin(*adapter.Request) (*instant, error) { return i, nil }
func (i *instant) Next(time.Time) (adapter.Event, error)    { return i.event, nil }
func (i *instant) Gone()                                    {}
func (i *instant) Close()                                   {}
func (i *instant) Ready(context.Context) (bool, []string)   { return true, nil }
func (i *instant) ProtectedResource(context.Context, string, string) (int, string, []byte, error) {
	return 200, "", nil, nil
}

func instantServer() *Server {
	return New(settings(), downstream.Behind(newInstant()), zerolog.New(io.Discard).Level(zerolog.InfoLevel), prometheus.NewRegistry())
}

// parsed is a request as fasthttp hands it to a handler.
func parsed(tb testing.TB, text string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(&net.TCPConn{}, nil, true)
	if err := ctx.Request.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		tb.Fatal(err)
	}
	return ctx
}

// A plain call costs the proxy no allocation of its own.
func TestHandlerAllocatesNothing(t *testing.T) {
	if racing {
		t.Skip("the race detector has sync.Pool drop what it should keep")
	}
	s := instantServer()
	defer s.watcher.close()
	ctx := parsed(t, post(callBody))
	if n := testing.AllocsPerRun(200, func() {
		s.handle(ctx)
		if ctx.Response.StatusCode() != 200 {
			t.Fatal(ctx.Response.StatusCode())
		}
		ctx.Response.Reset()
	}); n > 0 {
		t.Errorf("a plain call allocates %v times", n)
	}
}

func BenchmarkHandler(b *testing.B) {
	s := instantServer()
	defer s.watcher.close()
	ctx := parsed(b, post(callBody))
	b.ReportAllocs()
	for b.Loop() {
		s.handle(ctx)
		ctx.Response.Reset()
	}
}

// BenchmarkServe compares a plain call on one connection in memory with
// fasthttp's own work for a request and an answer of the same size.
func BenchmarkServe(b *testing.B) {
	s := instantServer()
	defer s.watcher.close()
	ctx := parsed(b, post(callBody))
	s.handle(ctx)
	bare := strings.Clone(string(ctx.Response.Body()))
	for name, handler := range map[string]fasthttp.RequestHandler{
		"bare": func(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyString(bare) },
		"full": s.handle,
	} {
		b.Run(name, func(b *testing.B) {
			ln := fasthttputil.NewInmemoryListener()
			server := &fasthttp.Server{Handler: handler, ReduceMemoryUsage: true, ReadBufferSize: 16 << 10}
			served := make(chan error, 1)
			go func() { served <- server.Serve(ln) }()
			conn, err := ln.Dial()
			if err != nil {
				b.Fatal(err)
			}
			r := bufio.NewReader(conn)
			request := []byte(post(callBody))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				length := 0
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(line) <= 2 {
						break
					}
					if rest, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
						length, _ = strconv.Atoi(strings.TrimSpace(rest))
					}
				}
				if _, err := r.Discard(length); err != nil {
					b.Fatal(err)
				}
			}
			conn.Close()
			ln.Close()
			if err := <-served; err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	x := &exchange{}
	text := []byte(progress)
	b.ReportAllocs()
	for b.Loop() {
		x.message(text)
	}
}

func TestEventAllocatesNothing(t *testing.T) {
	x := &exchange{}
	text := []byte(progress)
	x.message(text)
	if n := testing.AllocsPerRun(100, func() { x.message(text) }); n > 0 {
		t.Errorf("an event allocates %v times", n)
	}
}
