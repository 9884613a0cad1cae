package legacy

import (
	"context"
	"fmt"
	"time"
)

// ProtectedResource fetches the server's OAuth 2.0 Protected Resource Metadata
// (RFC 9728, section 3.1): at its root, or with ofPath at the well-known place
// of its own path. No client's credentials go with it.
func (s *Server) ProtectedResource(ctx context.Context, ofPath bool) (status int, contentType string, body []byte, err error) {
	if s.settings.Transport == TransportStdio { // it has none: spec 2025-11-25, basic/authorization, "Protocol Requirements"
		return 404, "", nil, nil
	}
	c, err := s.endpoint.dial(ctx)
	if err != nil {
		return 0, "", nil, err
	}
	defer c.free()
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	request := append(getText(512), "GET /.well-known/oauth-protected-resource"...)
	if ofPath && s.endpoint.path != "/" {
		request = append(request, s.endpoint.path...)
	}
	request = append(request, " HTTP/1.1\r\nHost: "...)
	request = append(request, s.endpoint.host...)
	request = append(request, "\r\nAccept: application/json\r\nConnection: close\r\n"...)
	for _, f := range s.settings.Headers {
		request = appendField(request, f.Name, f.Value)
	}
	request = append(request, "\r\n"...)
	_, err = c.send(request, s.settings.WriteTimeout)
	putText(request)
	if err != nil {
		return 0, "", nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	c.setDeadline(time.Now().Add(s.settings.PostTimeout))
	if err := c.readHead(); err != nil {
		return 0, "", nil, asBroken(err)
	}
	status, contentType = c.resp.status, c.resp.contentType
	if c.resp.kind == contentJSON {
		contentType = "application/json"
	}
	text, owned, err := c.readAll(maxMetadata)
	if err != nil {
		return 0, "", nil, err
	}
	body = append([]byte(nil), text...)
	if owned {
		putText(text)
	}
	return status, contentType, body, nil
}

// maxMetadata bounds a metadata document.
const maxMetadata = 256 << 10
