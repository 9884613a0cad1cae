package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/config"
)

// Survey is what was found out about a server. Its JSON is what --json prints.
type Survey struct {
	Era          string          `json:"era"` // "legacy" or "modern"
	Transport    string          `json:"transport"`
	Revision     string          `json:"revision"`
	Server       json.RawMessage `json:"server,omitempty"` // its serverInfo
	Capabilities json.RawMessage `json:"capabilities"`
	Instructions bool            `json:"instructions"`

	SessionIDs    bool   `json:"sessionIds"`
	GETStream     bool   `json:"getStream"`
	Answers       string `json:"answers"`       // "streams", "json", or "one stream" for all of a session; "" of a modern server
	EventIDs      bool   `json:"eventIds"`      // of the streams that were seen
	AsksByItself  bool   `json:"asksByItself"`  // it asked something outside any call
	PushesOutside *bool  `json:"pushesOutside"` // its questions name no call; nil: not known before a tool asks

	Tools     []Tool `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
	Templates int    `json:"resourceTemplates"`

	OpenMillis float64  `json:"openMs"`           // the whole handshake
	PingMillis float64  `json:"pingMs,omitempty"` // the median of some pings; zero: it does not answer them
	Trouble    []string `json:"trouble,omitempty"`
	Holdfast   []string `json:"holdfast"` // what Holdfast would do for it
}

// Tool is a tool of the server, as far as it matters to who calls it.
type Tool struct {
	Name        string          `json:"name"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Task        string          `json:"task,omitempty"` // "required" or "optional"
	Replay      bool            `json:"replay"`         // calls.replay: safe would run it again
	Headers     []string        `json:"headers,omitempty"`
}

const (
	pings    = 5
	quietFor = 500 * time.Millisecond // how long a server is given to ask something by itself
	maxPages = 64                     // of one list
	maxShown = 10_000                 // entries of one list
)

// inspect opens a session with the one upstream, looks, and ends it.
func inspect(ctx context.Context, c *config.Config, environ []string, creds legacy.Credentials, log zerolog.Logger) (*Survey, error) {
	guard, err := startGuard(c)
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	settings := upstreamSettings(c, c.Upstreams[0], environ, guard, log)
	settings.IDPrefix, settings.ClientName = replicaID(), "holdfast-inspect"
	server, err := legacy.NewServer(settings, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown.Grace)
		defer cancel()
		server.Close(ctx)
	}()
	caps, err := mcp.ParseCapabilities([]byte(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`))
	if err != nil {
		return nil, err
	}
	era, err := server.Probe(ctx, creds)
	if err != nil && !errors.Is(err, legacy.ErrDeadline) {
		return nil, err
	}
	if era == legacy.EraModern {
		return inspectModern(ctx, server, creds)
	}
	key := legacy.Key{Caps: caps, ClientInfo: []byte(`{"name":"holdfast-inspect","version":"` + buildVersion() + `"}`)}
	begun := time.Now()
	session, err := server.Acquire(ctx, &key, false, creds)
	if err != nil {
		return nil, err
	}
	defer session.Return(false)
	s := &surveyor{found: &Survey{Era: legacy.EraLegacy.String(), OpenMillis: millis(time.Since(begun))}}
	s.lookAt(ctx, session, creds)
	// Over Streamable HTTP what it asks by itself came on the GET stream; where a
	// tool's questions come, only a call of it shows.
	if pushes := server.PushesOnGET() || s.found.AsksByItself; pushes || !s.found.GETStream {
		s.found.PushesOutside = &pushes
	}
	s.found.conclude(c)
	return s.found, nil
}

func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// surveyor asks a server all that there is to ask.
type surveyor struct {
	ask   func(method string, params []byte) ([]byte, error)
	found *Survey
}

// lookAt asks a legacy server.
func (s *surveyor) lookAt(ctx context.Context, session *legacy.Session, creds legacy.Credentials) {
	f, info := s.found, session.Info()
	f.Transport = session.Transport().String()
	f.Revision = info.Version
	f.Server, f.Capabilities = info.ServerInfo, info.Capabilities
	f.Instructions = len(info.Instructions) > 0
	f.SessionIDs = session.HasID()
	var seen legacy.Manner
	s.ask = func(method string, params []byte) ([]byte, error) {
		result, manner, err := session.Inquire(ctx, creds, method, params)
		seen.Streams, seen.EventIDs = seen.Streams || manner.Streams, seen.EventIDs || manner.EventIDs
		return result, err
	}
	s.lists()
	s.ping(mcp.MethodPing)
	f.AsksByItself = waitForOrphans(ctx, session)
	f.GETStream = session.Listens()
	switch {
	case f.Transport != legacy.TransportStreamable.String():
		f.Answers = "one stream"
	case seen.Streams:
		f.Answers = "streams"
	default:
		f.Answers = "json"
	}
	f.EventIDs = seen.EventIDs
}

// lists reads what the server's capabilities say that there is.
func (s *surveyor) lists() {
	f := s.found
	if jsonrpc.Get(f.Capabilities, "tools") != nil {
		s.list(mcp.MethodToolsList, "tools", s.addTool)
	}
	if jsonrpc.Get(f.Capabilities, "prompts") != nil {
		s.list(mcp.MethodPromptsList, "prompts", func([]byte) { f.Prompts++ })
	}
	if jsonrpc.Get(f.Capabilities, "resources") != nil {
		s.list(mcp.MethodResourcesList, "resources", func([]byte) { f.Resources++ })
		s.list(mcp.MethodResourceTemplates, "resourceTemplates", func([]byte) { f.Templates++ })
	}
}

// list reads all pages of a list.
func (s *surveyor) list(method, member string, add func([]byte)) {
	var params []byte
	for n, page := 0, 0; page < maxPages; page++ {
		result, err := s.ask(method, params)
		if err != nil {
			s.trouble(method, err)
			return
		}
		entries := jsonrpc.Array(jsonrpc.Get(result, member))
		for entries.Next() && n < maxShown {
			add(entries.Value())
			n++
		}
		cursor := jsonrpc.Get(result, "nextCursor")
		if !jsonrpc.IsString(cursor) {
			return
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	s.trouble(method, fmt.Errorf("more than %d pages", maxPages))
}

func (s *surveyor) trouble(what string, err error) {
	s.found.Trouble = append(s.found.Trouble, what+": "+err.Error())
}

func (s *surveyor) addTool(raw []byte) {
	name, ok := jsonrpc.Unquote(jsonrpc.Get(raw, "name"))
	if !ok {
		s.trouble(mcp.MethodToolsList, errors.New("a tool without a name"))
		return
	}
	t := Tool{Name: name, Annotations: jsonrpc.Get(raw, "annotations"), Replay: legacy.IsHarmless(jsonrpc.Get(raw, "annotations"))}
	t.Task, _ = jsonrpc.Unquote(jsonrpc.Get(jsonrpc.Get(raw, "execution"), "taskSupport"))
	if t.Task == "forbidden" {
		t.Task = ""
	}
	rules, err := mcp.ParamRules(jsonrpc.Get(raw, "inputSchema"))
	if err != nil {
		s.trouble("tool "+name, err)
	}
	for _, rule := range rules {
		t.Headers = append(t.Headers, rule.Header)
	}
	s.found.Tools = append(s.found.Tools, t)
}

// ping measures with a request that costs a server nothing to speak of.
func (s *surveyor) ping(method string) {
	var took []time.Duration
	for range pings {
		begun := time.Now()
		if _, err := s.ask(method, nil); err != nil {
			s.trouble(method, err)
			return
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	s.found.PingMillis = millis(took[len(took)/2])
}

// waitForOrphans gives the server a moment to ask what it asks outside any call.
func waitForOrphans(ctx context.Context, session *legacy.Session) bool {
	look := time.NewTicker(quietFor / 20)
	defer look.Stop()
	end := time.NewTimer(quietFor)
	defer end.Stop()
	for !session.HasOrphans() {
		select {
		case <-look.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// conclude says what all that means for who puts Holdfast in front.
func (f *Survey) conclude(c *config.Config) {
	add := func(format string, args ...any) { f.Holdfast = append(f.Holdfast, fmt.Sprintf(format, args...)) }
	streamable := f.Transport == legacy.TransportStreamable.String()
	switch {
	case f.Transport == legacy.TransportStdio.String():
		add("one process for each caller (sessions.scope), through whichever replica the requests come")
	case !streamable:
		add("one event stream for each caller (sessions.scope), through whichever replica the requests come")
	case f.SessionIDs:
		add("one session for each caller, which all replicas share (sessions.affinity)")
	default:
		add("no session ids: each replica speaks to it for itself")
	}
	if !streamable {
		add("its questions name no call: a call that may be asked something gets a session of its own beside others (up to sessions.max_per_key = %d)", c.Sessions.MaxPerKey)
	}
	switch {
	case f.EventIDs:
		add("its streams can be resumed: calls survive the death of a replica without running twice, and calls.release_after may let go of parked ones")
	case streamable && f.Answers == "json":
		add("lists came as plain JSON: whether the streams of its calls can be resumed is not known before one asks something")
	default:
		add("its streams cannot be resumed: a call that its replica loses runs again where that is harmless, and is an error elsewhere")
	}
	var replay, tasks []string
	for _, t := range f.Tools {
		if t.Replay {
			replay = append(replay, t.Name)
		}
		if t.Task == "required" {
			tasks = append(tasks, t.Name)
		}
	}
	add("%d of %d tools may run again (calls.replay: safe)%s", len(replay), len(f.Tools), named(replay))
	if len(tasks) > 0 {
		add("driven as legacy tasks: %s", strings.Join(tasks, ", "))
	}
	if f.AsksByItself {
		add("what it asks outside calls waits for the caller's next call that can be asked")
	}
}

// named lists names behind a colon, the first few.
func named(names []string) string {
	const few = 8
	switch {
	case len(names) == 0:
		return ""
	case len(names) > few:
		return fmt.Sprintf(": %s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return ": " + strings.Join(names, ", ")
}
