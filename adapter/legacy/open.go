package legacy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func asStatus(err error, target **StatusError) bool { return errors.As(err, target) }

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// openOver does the handshake: initialize, initialized, and the GET stream. Spec
// 2025-11-25, basic/lifecycle. The caller has reserved the session's place.
func (s *Server) openOver(ctx context.Context, transport Transport, e *entry, creds Credentials) (*Session, error) {
	session := s.newSession(e, creds)
	session.outbox.held = true
	session.setHeads()
	session.opened, session.counted = true, true
	err := session.openChannel(ctx, transport, creds)
	if err == nil {
		err = session.handshake(ctx, creds)
	}
	if err != nil {
		err = session.giveUp(ctx, err)
		session.outbox.close(ctx)
		if session.id != "" { // the server has opened it: it must not stay behind there
			s.background(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.settings.PostTimeout)
				defer cancel()
				if err := session.delete(ctx, creds.Lasting()); err != nil {
					s.log.Debug().Err(err).Str("upstream", s.settings.Name).Msg("session delete unanswered")
				}
			})
		}
		return nil, fmt.Errorf("open a session with upstream %s: %w", s.settings.Name, err)
	}
	if s.settings.Peers != nil && session.id != "" {
		session.holder = s.settings.Peers.Self()
	}
	if !s.noStream.Load() {
		standing := session.startListening(creds.Lasting(), nil, false)
		wait := time.NewTimer(s.settings.StreamWait)
		defer wait.Stop()
		select {
		case <-standing:
		case <-wait.C: // some servers send no head before the first event
		case <-ctx.Done():
		}
	}
	return session, nil
}

func (s *Server) newSession(e *entry, creds Credentials) *Session {
	session := &Session{
		server: s, entry: e, caps: e.key.Caps, creds: creds.Lasting(),
		calls: make(map[uint64]*Exchange), levelMu: make(chan struct{}, 1), lastUse: time.Now(),
		info: &Info{},
	}
	session.life = uint64(session.lastUse.UnixNano())
	session.outbox = &outbox{session: session}
	return session
}

func (s *Session) handshake(ctx context.Context, creds Credentials) error {
	answer := &answer{}
	x := s.Prepare(s.server.NextID(), answer, creds, false, false, mcp.LevelNone)
	s.entry.hold(s)
	defer x.Finish()
	params := []byte(`{"protocolVersion":"` + mcp.Latest + `","capabilities":`)
	params = append(params, s.caps.Declared()...)
	params = append(params, `,"clientInfo":`...)
	if info := s.entry.key.ClientInfo; info != nil {
		params = append(params, info...)
	} else {
		params = append(params, `{"name":`...)
		params = jsonrpc.AppendQuote(params, s.server.settings.ClientName)
		params = append(params, `,"version":`...)
		params = jsonrpc.AppendQuote(params, s.server.settings.ClientVersion)
		params = append(params, '}')
	}
	params = append(params, '}')
	x.SetMessage(jsonrpc.AppendRequest(Text(), x.AppendID(nil), mcp.MethodInitialize, params))
	if err := x.Send(ctx, true); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if x.conn != nil {
		x.conn.resp.wantSession = true
	}
	stop := context.AfterFunc(ctx, x.Abort)
	defer stop()
	for !x.Run(ctx) { // a question inside a request of our own is routed as any other
	}
	s.id = x.named // also where the rest is of no use: the session must be deleted
	s.setHeads()   // for the DELETE
	switch {
	case answer.err != nil && x.session.channel != nil:
		return cmp.Or(ctx.Err(), answer.err) // no post goes on then
	case answer.err != nil:
		return answer.err
	case answer.result == nil && ctx.Err() != nil:
		return ctx.Err()
	case answer.result == nil:
		return ErrBroken
	}
	info, err := s.server.infoOf(answer.result)
	if info != nil {
		s.info = info
	}
	s.setHeads()
	if err != nil {
		return err
	}
	s.outbox.open()
	initialized := jsonrpc.AppendRequest(getText(64), nil, mcp.NotifyInitialized, nil)
	defer putText(initialized)
	return s.Post(ctx, creds, initialized)
}

// setHeads builds what every request of the session begins with.
func (s *Session) setHeads() {
	s.head = nil
	if s.id != "" {
		s.head = appendField(s.head, "Mcp-Session-Id", s.id)
	}
	if s.info.Revision.Has(mcp.VersionHeader) && s.channel == nil {
		s.head = appendField(s.head, "MCP-Protocol-Version", s.info.Version)
	}
	s.postHead = s.server.endpoint.appendHead(nil, "POST", s.target)
	s.postHead = append(s.postHead, "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	s.postHead = append(s.postHead, s.head...)
}

// maxInfo bounds what is kept of a server's word on itself.
const maxInfo = 512 << 10

// infoOf reads an initialize result. Sessions that were told the same share it.
func (s *Server) infoOf(result []byte) (*Info, error) {
	if len(result) > maxInfo {
		return nil, fmt.Errorf("%w: the answer to initialize is larger than %d bytes", ErrMalformed, maxInfo)
	}
	if last := s.info.Load(); last != nil && bytes.Equal(last.raw, result) {
		return last, nil
	}
	info := &Info{raw: result}
	if err := info.read(result); err != nil {
		return nil, err
	}
	s.info.Store(info)
	return info, nil
}

// read reads an initialize result.
func (i *Info) read(result []byte) error {
	version, _ := jsonrpc.Unquote(jsonrpc.Get(result, "protocolVersion"))
	if !mcp.LegacyVersion(version) {
		return fmt.Errorf("%w: initialize was answered with protocol version %.40q", ErrMalformed, version)
	}
	i.Version, i.Revision = version, mcp.ParseRevision(version)
	if info := jsonrpc.Get(result, "serverInfo"); jsonrpc.IsObject(info) {
		i.ServerInfo = info
	}
	if text := jsonrpc.Get(result, "instructions"); jsonrpc.IsString(text) {
		i.Instructions = text
	}
	i.Capabilities = jsonrpc.Get(result, "capabilities")
	if !jsonrpc.IsObject(i.Capabilities) {
		i.Capabilities = []byte("{}")
	}
	changes := func(of string) bool {
		return string(jsonrpc.Get(jsonrpc.Get(i.Capabilities, of), "listChanged")) == "true"
	}
	i.Logging = jsonrpc.IsObject(jsonrpc.Get(i.Capabilities, "logging"))
	i.Tools = jsonrpc.IsObject(jsonrpc.Get(i.Capabilities, "tools"))
	tasks := jsonrpc.Get(i.Capabilities, "tasks")
	i.TaskCalls = i.Revision.Has(mcp.Tasks) && jsonrpc.IsObject(jsonrpc.Get(jsonrpc.Get(jsonrpc.Get(tasks, "requests"), "tools"), "call"))
	i.TaskCancel = jsonrpc.IsObject(jsonrpc.Get(tasks, "cancel"))
	i.ToolsList, i.PromptsList, i.ResList = changes("tools"), changes("prompts"), changes("resources")
	i.Subscribe = string(jsonrpc.Get(jsonrpc.Get(i.Capabilities, "resources"), "subscribe")) == "true"
	return nil
}

// otherCredentials waits until the session was used with other credentials than
// those that the server refused for the GET stream: a token is refreshed in time.
func (s *Session) otherCredentials(ctx context.Context, st *stream, refused Credentials) (Credentials, error) {
	for {
		if creds := s.Housekeeping(); !slices.Equal(creds, refused) {
			return creds, nil
		}
		if err := st.sleep(ctx, s.server.settings.RetryMax); err != nil {
			return nil, err
		}
	}
}

// listen keeps the session's GET stream open and routes what comes on it,
// until ctx ends or the server has no such stream. It begins behind an event,
// where st has its id; late says that something may have come before. standing
// is closed once the server has answered for the first time, or nobody asks it
// any more. Spec 2025-11-25, basic/transports, "Listening for Messages from the
// Server".
func (s *Session) listen(ctx context.Context, st *stream, creds Credentials, late bool, standing chan struct{}) {
	stop := context.AfterFunc(ctx, st.interrupt)
	defer stop()
	defer st.dropConn()
	defer st.sse.free()
	answered, stood := false, false
	defer func() {
		if !answered { // ctx had ended before: nobody needs to wait
			close(standing)
		}
	}()
	for ctx.Err() == nil {
		blind := (stood || late) && st.lastID == nil // what came meanwhile is lost
		err := st.reopen(ctx, creds)
		if err == nil {
			if stood = true; blind {
				s.missed()
			}
		}
		if !answered {
			answered = true
			close(standing)
		}
		for err == nil {
			var data []byte
			if data, err = st.event(); err == nil {
				err = jsonrpc.ParseServer(data, s.server.settings.MaxDepth, func(m jsonrpc.Message) error {
					s.route(nil, &m, false)
					return nil
				})
				if err != nil {
					s.server.noisy.Warn().Err(err).Str("upstream", s.server.settings.Name).Msg("message on the GET stream skipped")
					err = nil
				}
			}
		}
		st.dropConn()
		var status *StatusError
		switch {
		case ctx.Err() != nil, errors.Is(err, ErrSessionGone):
			return
		case errors.As(err, &status) && status.Unauthorized():
			if creds, err = s.otherCredentials(ctx, st, creds); err != nil {
				return
			}
			continue
		case errors.As(err, &status) && !transient(err):
			if status.Status == 405 {
				s.server.noStream.Store(true)
			}
			return
		}
		creds = s.Housekeeping()
		if st.resumes == 0 {
			st.resumes = 1 // a stream that ended after events is opened again after a pause
		}
	}
}
