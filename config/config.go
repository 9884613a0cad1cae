package config

import "time"

// Config is every setting. The tags are read by schema.go:
//
//	koanf   the name in its section
//	doc     what it means
//	min max the allowed range, written as the setting is
//	oneof   the allowed words
//	form    the allowed shape, a name in forms
//	secret  never printed
type Config struct {
	Listen    string     `koanf:"listen" form:"address" doc:"address that clients connect to"`
	Admin     string     `koanf:"admin" form:"address?" doc:"address of /healthz, /readyz, /replicas and /metrics; empty: none"`
	Profiling bool       `koanf:"profiling" doc:"whether the admin address has /debug/pprof/ too: profiles of CPU and memory, and what every goroutine does"`
	Log       Log        `koanf:"log"`
	Upstreams []Upstream `koanf:"upstreams"`
	HTTP      HTTP       `koanf:"http"`
	Stream    Stream     `koanf:"stream"`
	Calls     Calls      `koanf:"calls"`
	Sessions  Sessions   `koanf:"sessions"`
	Principal Principal  `koanf:"principal"`
	Upstream  Transport  `koanf:"upstream"`
	Stdio     Stdio      `koanf:"stdio"`
	State     State      `koanf:"state"`
	Bus       Bus        `koanf:"bus"`
	Listeners Listeners  `koanf:"listeners"`
	Dialects  Dialects   `koanf:"dialects"`
	Shutdown  Shutdown   `koanf:"shutdown"`
}

// The words of Log.Format.
const (
	FormatJSON    = "json"
	FormatConsole = "console"
)

// Log says what is logged, and how.
type Log struct {
	Level  string `koanf:"level" oneof:"trace debug info warn error" doc:"least level that is logged"`
	Format string `koanf:"format" oneof:"json console" doc:"JSON lines, or text for people"`
}

// The words of Upstream.Transport.
const (
	TransportAuto       = "auto"
	TransportStreamable = "streamable-http"
	TransportSSE        = "http+sse"
	TransportStdio      = "stdio"
)

// Upstream is a legacy server and where it is served: one that listens at URL,
// or one that is a Command.
type Upstream struct {
	Name           string            `koanf:"name" form:"name" doc:"what logs and metrics call it; unique"`
	URL            string            `koanf:"url" form:"url?" doc:"the endpoint of the server; an upstream has this or command"`
	Command        string            `koanf:"command" doc:"the program that is the server, which speaks over its standard input and output: a path, or a name that is found by PATH"`
	Args           []string          `koanf:"args" form:"argument" doc:"arguments of command; secrets belong into env, because other users of a machine see its command lines"`
	Env            Env               `koanf:"env" form:"variables" secret:"true" doc:"variables that command gets beside the few that every one does, as NAME: value, or as a list of NAME=VALUE and of NAME, whose value is Holdfast's own"`
	Dir            string            `koanf:"dir" doc:"working directory of command; empty: Holdfast's own"`
	InheritEnv     bool              `koanf:"inherit_env" doc:"command gets all of Holdfast's own variables but HOLDFAST_ ones"`
	Transport      string            `koanf:"transport" oneof:"auto streamable-http http+sse stdio" doc:"how the server is spoken to; auto: over stdio with command, else over Streamable HTTP, or over HTTP+SSE where the server refuses that"`
	Endpoints      []string          `koanf:"endpoints" form:"url" doc:"further endpoints of the same server, such as its instances, or the next version of it in a rolling upgrade: new calls go to one that can be reached, retries to where their call is"`
	Resolve        bool              `koanf:"resolve" doc:"each address that the URL's host name resolves to is an endpoint; looked up again every upstream.resolve_every"`
	Protocol       string            `koanf:"protocol" oneof:"auto legacy modern" doc:"whether the server is legacy, or modern (its requests pass through unchanged); auto: each endpoint is asked once, and again when its answers do not fit"`
	Path           string            `koanf:"path" form:"path" doc:"path that clients use; unique"`
	Dialect        string            `koanf:"dialect" oneof:"mrtr incomplete-result dependent-requests saga resume-token resumable" doc:"the dialect of a request that neither names one nor shows one by its form"`
	Headers        map[string]string `koanf:"headers" form:"headers" secret:"true" doc:"header fields sent to the server with every request"`
	ForwardHeaders []string          `koanf:"forward_headers" form:"forward" doc:"names of a client's header fields that go to the server, beside Authorization"`
	Cache          Cache             `koanf:"cache"`
	PushesOnGET    bool              `koanf:"pushes_on_get" doc:"the server is known to push its requests on the GET stream; otherwise this is learned"`
}

// The words of Upstream.Protocol.
const (
	ProtocolAuto   = "auto"
	ProtocolLegacy = "legacy"
	ProtocolModern = "modern"
)

// The words of Cache.Scope.
const (
	ScopePrivate = "private"
	ScopePublic  = "public"
)

// Cache is what clients are told about keeping lists and resources.
type Cache struct {
	TTL   time.Duration `koanf:"ttl" min:"0s" max:"24h" doc:"ttlMs of lists and resources that the server gave none for"`
	Scope string        `koanf:"scope" oneof:"private public" doc:"cacheScope of lists and resources; public only where every caller sees the same, and a server's own public counts only with it"`
}

// HTTP is the side towards clients.
type HTTP struct {
	AllowedOrigins []string      `koanf:"allowed_origins" form:"origin" doc:"values of Origin that may call; empty: those of the local machine, any port"`
	AllowedHosts   []string      `koanf:"allowed_hosts" form:"host" doc:"names in Host that are served; empty: localhost, 127.0.0.1, [::1] and the host of listen unless that is a wildcard"`
	MaxBody        Size          `koanf:"max_body" min:"1KiB" max:"1GiB" doc:"size of a request's body"`
	MaxHeader      Size          `koanf:"max_header" min:"1KiB" max:"1MiB" doc:"size of a request's header"`
	MaxDepth       int           `koanf:"max_depth" min:"8" max:"1000" doc:"nesting of a request's JSON"`
	MaxConnections int           `koanf:"max_connections" min:"0" max:"10000000" doc:"open connections; 0: until file descriptors run out"`
	ReadTimeout    time.Duration `koanf:"read_timeout" min:"10ms" max:"24h" doc:"time for a whole request from its first byte"`
	WriteTimeout   time.Duration `koanf:"write_timeout" min:"10ms" max:"24h" doc:"time for each write to a client"`
	IdleTimeout    time.Duration `koanf:"idle_timeout" min:"10ms" max:"24h" doc:"time until an idle connection is closed"`
}

// Stream is how responses become and stay server-sent events.
type Stream struct {
	After       time.Duration `koanf:"after" min:"1ms" max:"10m" doc:"silence after which a response becomes a stream"`
	KeepAlive   time.Duration `koanf:"keepalive" min:"10ms" max:"10m" doc:"silence on a stream after which a comment is sent"`
	Buffer      int           `koanf:"buffer" min:"1" max:"65536" doc:"events that a slow client may lag behind before its call is ended with an error"`
	BufferBytes Size          `koanf:"buffer_bytes" min:"4KiB" max:"1GiB" doc:"size of those events, where they are more than one"`
}

// Calls are the limits of calls.
type Calls struct {
	Timeout               time.Duration `koanf:"timeout" min:"10ms" max:"24h" doc:"silence of the server after which a running call fails; progress resets it"`
	MaxDuration           time.Duration `koanf:"max_duration" min:"10ms" max:"168h" doc:"time that a call may run in all"`
	Gather                time.Duration `koanf:"gather" min:"0s" max:"1s" doc:"how long an input request waits for others, so that one answer carries all"`
	ParkTTL               time.Duration `koanf:"park_ttl" min:"10ms" max:"168h" doc:"how long a parked call waits for its client"`
	OutcomeTTL            time.Duration `koanf:"outcome_ttl" min:"10ms" max:"24h" doc:"how long an outcome is kept for a retry that is sent again"`
	MaxOutcomeBytes       Size          `koanf:"max_outcome_bytes" min:"1MiB" max:"1TiB" doc:"size of all kept outcomes; who has the most loses the oldest first"`
	Max                   int           `koanf:"max" min:"1" max:"10000000" doc:"calls in flight"`
	MaxParked             int           `koanf:"max_parked" min:"1" max:"10000000" doc:"parked calls"`
	MaxParkedPerPrincipal int           `koanf:"max_parked_per_principal" min:"1" max:"10000000" doc:"parked calls of one principal"`
	MaxReleased           int           `koanf:"max_released" min:"1" max:"100000000" doc:"parked calls whose connections were let go (calls.release_after)"`
	MaxRounds             int           `koanf:"max_rounds" min:"1" max:"1000000" doc:"rounds of one call that end with a question"`
	MaxInputs             int           `koanf:"max_inputs" min:"1" max:"10000" doc:"open input requests of one call"`
	MaxHold               time.Duration `koanf:"max_hold" min:"0s" max:"24h" doc:"how long one HTTP request of a call that may be asked something is held before the client is told to come back with a request state; 0: as long as it takes"`
	ReleaseAfter          time.Duration `koanf:"release_after" min:"0s" max:"24h" doc:"how long a parked call keeps its connection to the server where the server can go on with the stream (event ids); 0: until its end"`
	Replay                string        `koanf:"replay" oneof:"safe always never" doc:"whether a lost call is run again on another session: where that is harmless (prompts, resources, tools that are read-only or idempotent), always, or never"`
}

// The words of Calls.Replay.
const (
	ReplaySafe   = "safe"
	ReplayAlways = "always"
	ReplayNever  = "never"
)

// The words of Sessions.Scope, Sessions.Anonymous, Sessions.Affinity and
// Sessions.Eligible.
const (
	ScopePrincipal = "principal"
	ScopeShared    = "shared"
	ScopeCall      = "call"

	AnonymousClientInfo = "client-info"
	AnonymousShared     = "shared"
	AnonymousCall       = "call"

	AffinityHome = "home"
	AffinityNone = "none"

	EligibleOverflow = "overflow"
	EligibleQueue    = "queue"
)

// Sessions are the legacy sessions with upstreams.
type Sessions struct {
	Scope        string        `koanf:"scope" oneof:"principal shared call" doc:"who shares a session: the calls of one principal; those of all, for servers that keep nothing of a caller; or no two, which costs a handshake, and for a command a process, for each call"`
	Anonymous    string        `koanf:"anonymous" oneof:"client-info shared call" doc:"callers without credentials share a session with the same clientInfo, with each other, or with nobody"`
	Affinity     string        `koanf:"affinity" oneof:"home none" doc:"all replicas share one session for each caller and set of capabilities, which one of them keeps; or each replica opens its own"`
	Eligible     string        `koanf:"eligible" oneof:"overflow queue" doc:"where a server pushes its requests on the GET stream: further calls that may be asked something get further sessions, or wait"`
	Max          int           `koanf:"max" min:"1" max:"10000000" doc:"sessions of one upstream"`
	MaxPerKey    int           `koanf:"max_per_key" min:"1" max:"1000000" doc:"sessions of one principal with the same capabilities"`
	IdleTTL      time.Duration `koanf:"idle_ttl" min:"10ms" max:"168h" doc:"how long a session is kept without use"`
	OpenTimeout  time.Duration `koanf:"open_timeout" min:"10ms" max:"10m" doc:"time for opening a session"`
	Queue        int           `koanf:"queue" min:"1" max:"1000000" doc:"calls that may wait for a session of one key"`
	QueueTimeout time.Duration `koanf:"queue_timeout" min:"10ms" max:"24h" doc:"how long a call waits for a session"`
	CancelWait   time.Duration `koanf:"cancel_wait" min:"0s" max:"1m" doc:"how long a server may take to stop a cancelled call before a call that its questions could be taken for uses the session; at most half of queue_timeout"`
	OrphanTTL    time.Duration `koanf:"orphan_ttl" min:"10ms" max:"24h" doc:"how long a server's request that belongs to no call waits for one"`
	MaxOrphans   int           `koanf:"max_orphans" min:"1" max:"10000" doc:"server requests of one session that wait for a call"`
	ToolsTTL     time.Duration `koanf:"tools_ttl" min:"10ms" max:"24h" doc:"how long a known tool list is used to check header fields"`
}

// Principal says who is calling.
type Principal struct {
	Header string `koanf:"header" form:"header?" doc:"header field in which a trusted proxy in front names the caller; empty: Authorization tells callers apart"`
}

// Transport is the side towards upstreams, the same for each.
type Transport struct {
	ConnectTimeout time.Duration `koanf:"connect_timeout" min:"10ms" max:"10m" doc:"time for connecting"`
	WriteTimeout   time.Duration `koanf:"write_timeout" min:"10ms" max:"24h" doc:"time for sending one request"`
	PostTimeout    time.Duration `koanf:"post_timeout" min:"10ms" max:"10m" doc:"time until an answer or a notification is acknowledged"`
	DownTTL        time.Duration `koanf:"down_ttl" min:"10ms" max:"1h" doc:"how long an endpoint that could not be reached is passed over where the upstream has others"`
	ResolveEvery   time.Duration `koanf:"resolve_every" min:"10ms" max:"24h" doc:"how often names are looked up of upstreams that say resolve"`
	StreamWait     time.Duration `koanf:"stream_wait" min:"0s" max:"10s" doc:"how long a new session waits for its GET stream to stand"`
	MaxMessage     Size          `koanf:"max_message" min:"64KiB" max:"1GiB" doc:"size of one JSON body or event"`
	MaxLine        Size          `koanf:"max_line" min:"4KiB" max:"1GiB" doc:"size of one line of an event stream"`
	MaxIdleConns   int           `koanf:"max_idle_conns" min:"1" max:"1000000" doc:"idle connections kept for one upstream; what a burst leaves beyond it is closed within seconds"`
	IdleConnTTL    time.Duration `koanf:"idle_conn_ttl" min:"10ms" max:"24h" doc:"how long an idle connection is kept"`
	RetryMin       time.Duration `koanf:"retry_min" min:"1ms" max:"10m" doc:"first pause before a broken stream is opened again; doubled each time"`
	RetryMax       time.Duration `koanf:"retry_max" min:"1ms" max:"1h" doc:"longest pause before a broken stream is opened again"`
	MaxResumes     int           `koanf:"max_resumes" min:"1" max:"10000" doc:"attempts to resume one broken stream without an event in between"`
}

// Stdio is what holds for servers that are commands, the same for each, and
// for clients on standard input and output.
type Stdio struct {
	Grace       time.Duration `koanf:"grace" min:"0s" max:"10m" doc:"how long a command may take to end once its input is closed, and again after SIGTERM; then it is killed with all that it started"`
	RestartMin  time.Duration `koanf:"restart_min" min:"1ms" max:"10m" doc:"first pause before a command that has died is started again; doubled each time"`
	RestartMax  time.Duration `koanf:"restart_max" min:"1ms" max:"1h" doc:"longest pause before a command that has died is started again"`
	MaxLine     Size          `koanf:"max_line" min:"4KiB" max:"1GiB" doc:"size of one line, which is one message, of a command's output"`
	MaxRequests int           `koanf:"max_requests" min:"1" max:"1000000" doc:"requests in flight of the client of holdfast run --stdio"`
}

// State is the request state that clients carry from one round to the next.
type State struct {
	Keys     []string `koanf:"keys" form:"key" secret:"true" doc:"keys as holdfast keygen prints them; the first seals, all open; none and no key_file: a random one for this process"`
	KeyFile  string   `koanf:"key_file" doc:"file with one key a line instead, read again when it changes"`
	MaxBytes Size     `koanf:"max_bytes" min:"1KiB" max:"1MiB" doc:"size of a request state"`
}

// Bus is how replicas reach each other: an embedded NATS server alone, a
// cluster of embedded ones, or an external server.
type Bus struct {
	URL             string        `koanf:"url" form:"nats?" doc:"external NATS server, or several with commas between; empty: embedded"`
	CredentialsFile string        `koanf:"credentials_file" doc:"NATS credentials file (JWT and seed) for bus.url"`
	NKeyFile        string        `koanf:"nkey_file" doc:"file with an NKey seed for bus.url"`
	Token           string        `koanf:"token" secret:"true" doc:"NATS token for bus.url"`
	TLS             TLS           `koanf:"tls"`
	Cluster         Cluster       `koanf:"cluster"`
	Namespace       string        `koanf:"namespace" form:"name" doc:"first word of all subjects; deployments that share a NATS server need different ones"`
	Required        bool          `koanf:"required" doc:"a replica that cannot reach the bus is not ready; otherwise it is ready, but degraded"`
	OwnerTimeout    time.Duration `koanf:"owner_timeout" min:"100ms" max:"5m" doc:"silence after which another replica, or a stream from it, is taken for lost"`
	Window          Size          `koanf:"window" min:"256KiB" max:"16MiB" doc:"what one stream between replicas may have under way"`
	MaxStreams      int           `koanf:"max_streams" min:"1" max:"1000000" doc:"rounds that other replicas may have forwarded here at a time"`
}

// Cluster is a NATS cluster of the replicas' embedded servers.
type Cluster struct {
	Listen string   `koanf:"listen" form:"address?" doc:"address for the other replicas; empty: this replica is alone"`
	Peers  []string `koanf:"peers" form:"address" doc:"addresses of the replicas, or one DNS name with a port that resolves to all; its own may be among them"`
	Name   string   `koanf:"name" form:"name" doc:"name of the cluster; only replicas with the same one join"`
	Secret string   `koanf:"secret" secret:"true" doc:"what replicas prove to each other that they belong together with; needed unless bus.cluster.tls has a ca"`
	TLS    TLS      `koanf:"tls"`
}

// TLS names files of certificates.
type TLS struct {
	CA   string `koanf:"ca" doc:"file of the certificate authorities that the other side is checked against"`
	Cert string `koanf:"cert" doc:"file of the own certificate"`
	Key  string `koanf:"key" doc:"file of its private key"`
}

// Listeners are the limits of subscriptions/listen.
type Listeners struct {
	Max             int `koanf:"max" min:"1" max:"10000000" doc:"open listeners"`
	MaxPerPrincipal int `koanf:"max_per_principal" min:"1" max:"10000000" doc:"open listeners of one principal"`
	MaxURIs         int `koanf:"max_uris" min:"1" max:"100000" doc:"resources that one listener subscribes to"`
}

// Shutdown is how serving ends.
type Shutdown struct {
	Delay time.Duration `koanf:"delay" min:"0s" max:"1h" doc:"time after SIGTERM in which new requests are still taken, for load balancers to notice that the replica is no longer ready"`
	Grace time.Duration `koanf:"grace" min:"0s" max:"1h" doc:"time for running requests after that"`
}
