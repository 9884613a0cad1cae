package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// streamable is Streamable HTTP: an answer of its own for each request, and a
// GET stream for the rest.
type streamable struct {
	url     string
	http    *http.Client
	session string
	cancel  context.CancelFunc // ends the GET stream; nil without one
	ended   chan error         // how the GET stream ended
}

func newStreamable(url string) *streamable {
	return &streamable{url: url, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

func (s *streamable) head(request *http.Request) {
	if s.session != "" {
		request.Header.Set("Mcp-Session-Id", s.session)
		request.Header.Set("MCP-Protocol-Version", LegacyVersion)
	}
}

func (s *streamable) request(ctx context.Context, _ int64, body any, each func(message) (bool, error)) error {
	request, err := post(ctx, s.url, body)
	if err != nil {
		return err
	}
	s.head(request)
	header, err := send(s.http, request, each)
	if err == nil && s.session == "" { // initialize
		s.session = header.Get("Mcp-Session-Id")
	}
	return err
}

func (s *streamable) tell(ctx context.Context, body any) error {
	request, err := post(ctx, s.url, body)
	if err != nil {
		return err
	}
	s.head(request)
	_, err = send(s.http, request, func(m message) (bool, error) {
		return false, fmt.Errorf("an answer to what is no request: %s%s", m.Result, m.Error)
	})
	return err
}

// listen opens the GET stream and waits until the server has accepted it.
func (s *streamable) listen(ctx context.Context, push func(context.Context, message) error) error {
	if s.session == "" {
		return errors.New("initialize: no Mcp-Session-Id")
	}
	ctx, cancel := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		cancel()
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	s.head(request)
	response, err := s.http.Do(request)
	if err != nil {
		cancel()
		return fmt.Errorf("open the GET stream: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		_ = response.Body.Close()
		return fmt.Errorf("open the GET stream: HTTP %d", response.StatusCode)
	}
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { // ends with ctx, which close cancels and waits
		err := events(response.Body, func(m message) (bool, error) { return true, push(ctx, m) })
		_ = response.Body.Close()
		if err == nil {
			err = ErrEnded
		}
		s.ended <- fmt.Errorf("the GET stream: %w", err)
	}()
	return nil
}

func (s *streamable) close(ctx context.Context) error {
	var err error
	if s.cancel != nil {
		s.cancel()
		if err = <-s.ended; errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	if s.session == "" {
		return err
	}
	request, failure := http.NewRequestWithContext(ctx, http.MethodDelete, s.url, nil)
	if failure != nil {
		return errors.Join(err, failure)
	}
	s.head(request)
	response, failure := s.http.Do(request)
	if failure != nil {
		return errors.Join(err, failure)
	}
	failure = response.Body.Close()
	s.http.CloseIdleConnections()
	return errors.Join(err, failure)
}
