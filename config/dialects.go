package config

import "time"

// The words of Upstream.Dialect.
const (
	DialectMRTR              = "mrtr"
	DialectIncompleteResult  = "incomplete-result"
	DialectDependentRequests = "dependent-requests"
	DialectSaga              = "saga"
	DialectResumeToken       = "resume-token"
)

// Dialects are the forms beside MRTR in which clients may be told that they have
// to come back.
type Dialects struct {
	IncompleteResult  Asking `koanf:"incomplete_result"`
	DependentRequests Asking `koanf:"dependent_requests"`
	Saga              Asking `koanf:"saga"`
	ResumeToken       Polled `koanf:"resume_token"`
}

// Asking is a dialect whose clients can be asked something.
type Asking struct {
	Enabled      bool     `koanf:"enabled" doc:"whether clients may speak it"`
	Capabilities []string `koanf:"capabilities" form:"capability" doc:"what a client can be asked that declares no capabilities"`
}

// Polled is a dialect whose clients come back for the result.
type Polled struct {
	Enabled bool          `koanf:"enabled" doc:"whether clients may speak it"`
	After   time.Duration `koanf:"after" min:"10ms" max:"24h" doc:"how long a request waits for the result before its client gets a token to come back with"`
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
	} {
		if of.name == name && !of.enabled {
			return of.setting
		}
	}
	return ""
}
