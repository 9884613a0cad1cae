package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/lines"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// Server serves the one client at the other end of two streams.
type Server struct {
	settings Settings
	engine   downstream.Engine
	log      zerolog.Logger
	in       io.ReadCloser
	out      *output

	beginning sync.WaitGroup // requests that the engine has not been handed yet
	running   sync.WaitGroup
	watching  sync.WaitGroup // the goroutine that waits for the client to vanish

	mu       sync.Mutex
	inFlight map[string]*request // by keyOf
	count    int                 // of goroutines of requests
	stopping bool
	failure  error // what the client could not be told
}

// New makes a server. It owns the streams: a Read or Write that waits must end
// when its stream is closed from another goroutine. Shutdown closes them.
func New(settings Settings, engine downstream.Engine, in io.ReadCloser, out io.WriteCloser, log zerolog.Logger) *Server {
	return &Server{
		settings: settings, engine: engine, log: log,
		in: in, out: newOutput(out, settings.WriteTimeout), inFlight: map[string]*request{},
	}
}

// Serve reads requests until the input ends or Shutdown, and then returns nil:
// the engine has been handed all of them, and those that still run go on. An
// error says that the client cannot be read, or reads nothing itself. It is
// called once.
func (s *Server) Serve() error {
	defer s.beginning.Wait()
	s.watch()
	in := lines.NewReader(s.in, s.settings.MaxLine)
	for {
		line, err := in.Next()
		if err == nil {
			if line = bytes.Trim(line, " \t\r\n"); len(line) == 0 {
				continue
			}
			err = s.take(line)
		} else if long := (*lines.TooLong)(nil); errors.As(err, &long) {
			if err = long.Cause; err == nil {
				err = s.refuse(nil, downstream.Refuse(downstream.ReasonBodySize, fmt.Sprintf("The message is larger than %d bytes", s.settings.MaxLine)))
			}
		}
		s.mu.Lock()
		stopping, failure := s.stopping, s.failure
		s.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case stopping || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read from the client: %w", err)
		}
	}
}

// errVanished is what Serve returns when nobody can read what it writes.
var errVanished = errors.New("the client is gone")

// watch ends everything once nobody is left to read the output, where its stream
// can tell. A client that has only closed its end of the input may still read.
func (s *Server) watch() {
	stream, ok := s.out.w.(interface{ Hangup() error })
	if !ok {
		return
	}
	s.watching.Add(1)
	go func() {
		defer s.watching.Done()
		if stream.Hangup() == nil {
			s.broken(errVanished)
		}
	}()
}

// take looks at one message. An error says that the client cannot be answered.
func (s *Server) take(line []byte) error {
	// The request keeps it, and the next line takes the place of this one.
	msg, id, err := downstream.Read(bytes.Clone(line), s.settings.MaxDepth)
	switch {
	case err != nil:
		return s.refuse(id, err)
	case msg.IsNotification():
		if msg.Method == mcp.NotifyCancelled {
			s.cancelled(&msg)
		}
		return nil
	}
	r := &request{s: s, id: id, msg: msg, started: time.Now()}
	if err := s.enter(r); err != nil {
		return s.refuse(id, err)
	}
	go r.run()
	return nil
}

// refuse answers what has become no request.
func (s *Server) refuse(id []byte, err error) error {
	reply := downstream.ReplyTo(err)
	reply.Log(&s.log, "")
	err = s.out.send(func(dst []byte) []byte { return jsonrpc.AppendError(dst, id, &reply.Err) })
	if err != nil {
		s.broken(err)
	}
	return err
}

// enter puts a request on the books.
func (s *Server) enter(r *request) error {
	key := keyOf(r.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inFlight[key] != nil:
		// Basic/index, "Requests". The answer carries the id, because it is that of
		// a request; the one in flight gets its own all the same.
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: another request with this id is in flight"}
	case s.count >= s.settings.MaxRequests:
		return downstream.Refuse(adapter.ReasonOverload, "too many requests are in flight (stdio.max_requests)")
	case s.stopping:
		return downstream.Refuse(adapter.ReasonShutdown, "the server is stopping; send the request again")
	}
	s.inFlight[key] = r
	s.count++
	s.beginning.Add(1)
	s.running.Add(1)
	return nil
}

// free makes a request's id free.
func (s *Server) free(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := keyOf(r.id); s.inFlight[key] == r {
		delete(s.inFlight, key)
	}
}

// leave takes a request off the books.
func (s *Server) leave(r *request) {
	s.free(r)
	s.mu.Lock()
	s.count--
	s.mu.Unlock()
	s.running.Done()
}

// cancelled cancels the request that a notification names. One that is unknown,
// over or malformed is ignored: basic/patterns/cancellation, "Error Handling".
func (s *Server) cancelled(msg *jsonrpc.Message) {
	id := jsonrpc.Get(msg.Params, "requestId")
	if id == nil {
		return
	}
	s.mu.Lock()
	r := s.inFlight[keyOf(id)]
	s.mu.Unlock()
	if r == nil {
		return
	}
	s.free(r) // nothing will be said about it any more
	r.cancel()
}

// broken ends everything for a client that does not take what it is told.
func (s *Server) broken(err error) {
	s.mu.Lock()
	first := s.failure == nil
	if first {
		s.failure = err
	}
	s.mu.Unlock()
	if first {
		s.cancelAll()
		_ = s.in.Close()
	}
}

func (s *Server) cancelAll() {
	s.mu.Lock()
	all := make([]*request, 0, len(s.inFlight))
	for _, r := range s.inFlight {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		r.cancel()
	}
}

// Ready says whether the server takes requests and its engine could serve one,
// and what is amiss.
func (s *Server) Ready(ctx context.Context) (bool, []string) {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return false, []string{"shutting down"}
	}
	return s.engine.Ready(ctx)
}

// Shutdown stops reading and waits for running requests to end: the engine, shut
// down at the same time, gives those their last message. When ctx ends first,
// the rest is cancelled, and the error says so. The streams are closed then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	_ = s.in.Close()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = fmt.Errorf("requests cut off: %w", ctx.Err())
		s.cancelAll()
		s.out.close()
		<-ended
	}
	s.out.close()
	s.watching.Wait()
	return err
}
