package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Stream is an answer that is read frame by frame.
type Stream struct {
	t        testing.TB
	request  *Message
	cancel   context.CancelFunc
	headers  chan struct{} // closed when response or err is set
	response *http.Response
	err      error

	reading sync.Once
	frames  chan Frame // closed at the stream's end
	end     error      // set before frames is closed
}

// Open sends a request and returns at once; the first use waits for the
// answer's header. The connection is closed with the test, or by Close.
func (g Target) Open(t testing.TB, m *Message) *Stream {
	t.Helper()
	s := g.OpenText(t, m.Body(), m.Header)
	s.request = m
	return s
}

// OpenText is Open for a body that is no Message.
func (g Target) OpenText(t testing.TB, body string, header http.Header) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{t: t, cancel: cancel, headers: make(chan struct{}), frames: make(chan Frame, 1024)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	client := newClient(t)
	go func() {
		defer close(s.headers)
		s.response, s.err = client.Do(request)
	}()
	t.Cleanup(func() {
		s.Close()
		<-s.headers
		if s.err == nil {
			_ = s.response.Body.Close() // the connection is gone already
		}
		if s.begun() {
			for range s.frames { // until its reader has ended
			}
		}
	})
	return s
}

// Close closes the connection.
func (s *Stream) Close() { s.cancel() }

// Header waits for the answer's header.
func (s *Stream) Header() (status int, header http.Header) {
	s.t.Helper()
	s.wait()
	return s.response.StatusCode, s.response.Header
}

func (s *Stream) wait() {
	s.t.Helper()
	select {
	case <-s.headers:
	case <-time.After(patience):
		s.t.Fatalf("no answer within %v", patience)
	}
	if s.err != nil {
		s.t.Fatalf("no answer: %v", s.err)
	}
}

// Answered reports whether the answer's header has come.
func (s *Stream) Answered() bool {
	select {
	case <-s.headers:
		return s.err == nil
	default:
		return false
	}
}

func (s *Stream) begun() (yes bool) {
	yes = true
	s.reading.Do(func() { yes = false })
	return yes
}

// read starts the goroutine that reads frames; it ends with the connection.
func (s *Stream) read() {
	s.reading.Do(func() {
		go func() {
			defer close(s.frames)
			r := bufio.NewReader(s.response.Body)
			for {
				f, err := readFrame(r)
				if err != nil {
					s.end = err
					return
				}
				s.frames <- f
			}
		}()
	})
}

// Frame waits for the next comment or event; io.EOF says that the stream has
// ended in good order.
func (s *Stream) Frame() (Frame, error) {
	s.t.Helper()
	s.wait()
	s.read()
	select {
	case f, ok := <-s.frames:
		if !ok {
			return Frame{}, s.end
		}
		return f, nil
	case <-time.After(patience):
		s.t.Fatalf("nothing on the stream within %v", patience)
		return Frame{}, nil
	}
}

// Comment waits for a frame that must be a comment.
func (s *Stream) Comment() {
	s.t.Helper()
	f, err := s.Frame()
	if err != nil || !f.Comment {
		s.t.Fatalf("got %s (%v), want a comment", f.Data, err)
	}
}

// Next waits for the next message; comments are passed over.
func (s *Stream) Next() Envelope {
	s.t.Helper()
	for begun := time.Now(); ; {
		if time.Since(begun) > patience {
			s.t.Fatalf("nothing but comments on the stream within %v", patience)
		}
		f, err := s.Frame()
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		if !f.Comment {
			return f.envelope(s.t)
		}
	}
}

// Notification waits for the next message, which must be of this method.
func (s *Stream) Notification(method string) Envelope {
	s.t.Helper()
	m := s.Next()
	if m.Method != method {
		s.t.Fatalf("got %s, want %s", m.Raw, method)
	}
	return m
}

// Reply reads the rest to its end: the answer, without the messages that were
// taken before.
func (s *Stream) Reply() *Reply {
	s.t.Helper()
	s.wait()
	r := &Reply{Request: s.request, Status: s.response.StatusCode, Header: s.response.Header}
	if !r.SSE() {
		r = readReply(s.t, s.response)
		r.Request = s.request
		return r
	}
	for {
		f, err := s.Frame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.t.Fatalf("the stream broke off: %v", err)
		}
		if f.Comment {
			r.Comments++
			continue
		}
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Method == "" {
			s.t.Errorf("the stream goes on after its response: %s", f.Data)
		}
		r.Body = append(append(r.Body, f.Data...), '\n')
		r.Messages = append(r.Messages, f.envelope(s.t))
	}
	r.take(s.t)
	return r
}
