package config

import "time"

// The words of Upstream.Dialect, and of Tasks.Required.
const (
	DialectMRTR              = "mrtr"
	DialectIncompleteResult  = "incomplete-result"
	DialectDependentRequests = "dependent-requests"
	DialectSaga              = "saga"
	DialectResumeToken       = "resume-token"
	DialectResumable         = "resumable"

	TasksServe  = "serve"
	TasksRefuse = "refuse"
)

// Dialects are the forms beside MRTR in which clients may be told that they have
// to come back.
type Dialects struct {
	IncompleteResult  Draft     `koanf:"incomplete_result"`
	DependentRequests Asking    `koanf:"dependent_requests"`
	Saga              Asking    `koanf:"saga"`
	ResumeToken       Polled    `koanf:"resume_token"`
	Resumable         Resumable `koanf:"resumable"`
	Tasks             Tasks     `koanf:"tasks"`
}

// Asking is a dialect whose clients can be asked something.
type Asking struct {
	Enabled      bool     `koanf:"enabled" doc:"whether clients may speak it"`
	Capabilities []string `koanf:"capabilities" form:"capability" doc:"what a client can be asked that declares no capabilities"`
}

// Draft is the dialect of the draft of MRTR.
type Draft struct {
	Enabled      bool     `koanf:"enabled" doc:"whether clients may speak it"`
	Capabilities []string `koanf:"capabilities" form:"capability" doc:"what a client can be asked that declares no capabilities"`
	Persistent   bool     `koanf:"persistent" doc:"whether a call with the task parameter becomes a task (the draft's persistent workflow), which lasts at most dialects.tasks.ttl"`
}

// Polled is a dialect whose clients come back for the result.
type Polled struct {
	Enabled bool          `koanf:"enabled" doc:"whether clients may speak it"`
	After   time.Duration `koanf:"after" min:"10ms" max:"24h" doc:"how long a request waits for the result before its client gets a token to come back with"`
}

// Resumable is a dialect whose clients may lose their streams and go on with them.
type Resumable struct {
	Enabled       bool          `koanf:"enabled" doc:"whether clients may speak it"`
	Capabilities  []string      `koanf:"capabilities" form:"capability" doc:"what a client can be asked that declares no capabilities"`
	MaxWait       time.Duration `koanf:"max_wait" min:"10ms" max:"24h" doc:"how long a client may be away before its request is cancelled, rounded up to seconds"`
	MaxMessages   int           `koanf:"max_messages" min:"1" max:"1000000" doc:"notifications kept for a client that is away; of more, the oldest give way, and the client is told how many"`
	MaxBytes      Size          `koanf:"max_bytes" min:"1KiB" max:"1GiB" doc:"of them, the bytes"`
	MaxTotalBytes Size          `koanf:"max_total_bytes" min:"64KiB" max:"1TiB" doc:"size of the notifications that are kept for all such clients; of who has the most, the oldest give way, and the client is told how many"`
}

// Tasks are the extension io.modelcontextprotocol/tasks.
type Tasks struct {
	Enabled         bool          `koanf:"enabled" doc:"whether clients may speak it"`
	Required        string        `koanf:"required" oneof:"serve refuse" doc:"a tool that the server runs as a task only: serve a client without the extension all the same, which waits, or refuse it (-32021)"`
	After           time.Duration `koanf:"after" min:"10ms" max:"24h" doc:"how long a tool call may take before it becomes a task; tools that the server itself runs as tasks do so at once"`
	TTL             time.Duration `koanf:"ttl" min:"10ms" max:"168h" doc:"how long a task can be asked for, from its creation"`
	Poll            time.Duration `koanf:"poll" min:"10ms" max:"10m" doc:"how often clients are told to ask for a task"`
	Max             int           `koanf:"max" min:"1" max:"10000000" doc:"tasks that have not ended, and requests of the dialect resumable; beyond it, calls are waited for, or refused"`
	MaxPerPrincipal int           `koanf:"max_per_principal" min:"1" max:"10000000" doc:"of them, those of one principal"`
}

// off returns the setting that switches a dialect on, where it is off.
func (d *Dialects) off(name string) string {
	for _, of := range []struct {
		name, setting string
		enabled       bool
	}{
		{DialectIncompleteResult, "dialects.incomplete_result.enabled", d.IncompleteResult.Enabled},
		{DialectDependentRequests, "dialects.dependent_requests.enabled", d.DependentRequests.Enabled},
		{DialectSaga, "dialects.saga.enabled", d.Saga.Enabled},
		{DialectResumeToken, "dialects.resume_token.enabled", d.ResumeToken.Enabled},
		{DialectResumable, "dialects.resumable.enabled", d.Resumable.Enabled},
	} {
		if of.name == name && !of.enabled {
			return of.setting
		}
	}
	return ""
}
