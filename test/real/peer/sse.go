package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// ConnectSSE opens a session over HTTP+SSE (spec 2024-11-05, basic/transports):
// one stream, whose first event says where to post.
func ConnectSSE(ctx context.Context, url string, identity Identity) (*Legacy, error) {
	s, err := openSSE(ctx, url)
	if err != nil {
		return nil, err
	}
	return begin(ctx, s, identity)
}

// sse is HTTP+SSE.
type sse struct {
	*channel
	http     *http.Client
	endpoint string // known once found is closed
	found    chan struct{}
	cancel   context.CancelFunc
}

func openSSE(ctx context.Context, address string) (*sse, error) {
	s := &sse{http: &http.Client{Transport: &http.Transport{DisableCompression: true}}, found: make(chan struct{})}
	s.channel = newChannel(s.send)
	streaming, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	request, err := http.NewRequestWithContext(streaming, http.MethodGet, address, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := s.http.Do(request)
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		_ = response.Body.Close()
		return nil, fmt.Errorf("GET %s: HTTP %d", address, response.StatusCode)
	}
	go func() { // ends with streaming, which close cancels and waits
		err := s.read(streaming, response)
		_ = response.Body.Close()
		s.end(errors.Join(err, io.EOF))
	}()
	select {
	case <-s.found:
		return s, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ended:
		err = s.err
	}
	return nil, errors.Join(fmt.Errorf("GET %s: no endpoint", address), err, s.close(ctx))
}

// read reads events, each of one data line.
func (s *sse) read(ctx context.Context, response *http.Response) error {
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxMessage)
	kind := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "event":
			kind = value
		case lines.Text() == "":
			kind = ""
		case name == "data" && kind == "endpoint":
			reference, err := url.Parse(value)
			if err != nil {
				return err
			}
			if s.endpoint != "" {
				return errors.New("a second endpoint")
			}
			s.endpoint = response.Request.URL.ResolveReference(reference).String()
			close(s.found)
		case name == "data":
			var m message
			if err := json.Unmarshal([]byte(value), &m); err != nil {
				return fmt.Errorf("event %.200q: %w", value, err)
			}
			s.take(ctx, m)
		}
	}
	return lines.Err()
}

func (s *sse) send(ctx context.Context, text []byte) error {
	request, err := post(ctx, s.endpoint, json.RawMessage(text))
	if err != nil {
		return err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("POST: HTTP %d %q", response.StatusCode, body)
	}
	return nil
}

func (s *sse) close(context.Context) error {
	err := s.leave()
	s.cancel()
	<-s.ended
	s.http.CloseIdleConnections()
	return err
}
