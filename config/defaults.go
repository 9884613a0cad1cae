package config

import "time"

// Defaults returns what holds where nothing else is said. It has no upstream.
func Defaults() *Config {
	return &Config{
		Listen: "127.0.0.1:8080",
		Log:    Log{Level: "info", Format: FormatJSON},
		HTTP: HTTP{
			MaxBody:      4 << 20,
			MaxHeader:    16 << 10,
			MaxDepth:     64,
			ReadTimeout:  30 * time.Second,
			WriteTimeout: 30 * time.Second,
			IdleTimeout:  2 * time.Minute,
		},
		Stream: Stream{
			After:       5 * time.Second,
			KeepAlive:   15 * time.Second,
			Buffer:      256,
			BufferBytes: 4 << 20,
		},
		Calls: Calls{
			Timeout:               5 * time.Minute,
			MaxDuration:           time.Hour,
			Gather:                3 * time.Millisecond,
			ParkTTL:               10 * time.Minute,
			OutcomeTTL:            time.Minute,
			MaxOutcomeBytes:       64 << 20,
			Max:                   16384,
			MaxParked:             20000,
			MaxParkedPerPrincipal: 2000,
			MaxReleased:           200000,
			MaxRounds:             100,
			MaxInputs:             32,
			Replay:                ReplaySafe,
		},
		Sessions: Sessions{
			Scope:        ScopePrincipal,
			Anonymous:    AnonymousClientInfo,
			Affinity:     AffinityHome,
			Eligible:     EligibleOverflow,
			Max:          10000,
			MaxPerKey:    64,
			IdleTTL:      10 * time.Minute,
			OpenTimeout:  30 * time.Second,
			Queue:        1024,
			QueueTimeout: 30 * time.Second,
			CancelWait:   2 * time.Second,
			OrphanTTL:    time.Minute,
			MaxOrphans:   16,
			ToolsTTL:     5 * time.Minute,
		},
		Upstream: Transport{
			ConnectTimeout: 5 * time.Second,
			WriteTimeout:   30 * time.Second,
			PostTimeout:    30 * time.Second,
			DownTTL:        5 * time.Second,
			ResolveEvery:   10 * time.Second,
			StreamWait:     250 * time.Millisecond,
			MaxMessage:     16 << 20,
			MaxLine:        16 << 20,
			MaxIdleConns:   512,
			IdleConnTTL:    50 * time.Second,
			RetryMin:       100 * time.Millisecond,
			RetryMax:       10 * time.Second,
			MaxResumes:     20,
		},
		Stdio: Stdio{
			Grace:       2 * time.Second,
			RestartMin:  100 * time.Millisecond,
			RestartMax:  30 * time.Second,
			MaxLine:     16 << 20,
			MaxRequests: 1024,
		},
		State: State{MaxBytes: 16 << 10},
		Bus: Bus{
			Cluster:      Cluster{Name: "holdfast"},
			Namespace:    "holdfast",
			OwnerTimeout: 3 * time.Second,
			Window:       1 << 20,
			MaxStreams:   16384,
		},
		Listeners: Listeners{Max: 10000, MaxPerPrincipal: 256, MaxURIs: 256},
		Dialects: Dialects{
			IncompleteResult:  Draft{Enabled: true, Capabilities: []string{"elicitation", "sampling"}},
			DependentRequests: Asking{Enabled: true, Capabilities: []string{"elicitation", "sampling"}},
			Saga:              Asking{Enabled: true, Capabilities: []string{"elicitation", "sampling"}},
			ResumeToken:       Polled{Enabled: true, After: 20 * time.Second},
			Resumable: Resumable{
				Enabled: true, Capabilities: []string{"elicitation", "sampling"},
				MaxWait: 5 * time.Minute, MaxMessages: 256, MaxBytes: 256 << 10, MaxTotalBytes: 64 << 20,
			},
			Tasks: Tasks{
				Enabled: true, Required: TasksServe, After: 20 * time.Second, TTL: time.Hour, Poll: time.Second,
				Max: 20000, MaxPerPrincipal: 2000,
			},
		},
		Shutdown: Shutdown{Grace: 30 * time.Second},
	}
}

// DefaultUpstream returns what holds for an upstream where nothing else is
// said. It has neither URL nor Command.
func DefaultUpstream() Upstream {
	return Upstream{
		Name:      "default",
		Transport: TransportAuto,
		Protocol:  ProtocolAuto,
		Path:      "/mcp",
		Dialect:   DialectMRTR,
		Cache:     Cache{Scope: ScopePrivate},
	}
}
