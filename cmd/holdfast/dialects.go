package main

import (
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/config"
)

// dialects are those that clients may speak over HTTP. life is how long a call may
// last with the time that its client takes.
func dialects(c *config.Dialects, life time.Duration) *dialect.Set {
	const section, enabled = "dialects.", ".enabled"
	return dialect.NewSet(
		dialect.Spoken{
			Dialect: dialect.IncompleteResult{
				Capabilities: capabilities(c.IncompleteResult.Capabilities),
				Persistent:   c.IncompleteResult.Persistent, TTL: c.Tasks.TTL, Poll: c.Tasks.Poll,
			},
			Off: !c.IncompleteResult.Enabled, Setting: section + "incomplete_result" + enabled,
		},
		dialect.Spoken{
			Dialect: dialect.DependentRequests{Capabilities: capabilities(c.DependentRequests.Capabilities)},
			Off:     !c.DependentRequests.Enabled, Setting: section + "dependent_requests" + enabled,
		},
		dialect.Spoken{
			Dialect: dialect.Saga{Capabilities: capabilities(c.Saga.Capabilities)},
			Off:     !c.Saga.Enabled, Setting: section + "saga" + enabled,
		},
		dialect.Spoken{
			Dialect: dialect.ResumeToken{After: c.ResumeToken.After},
			Off:     !c.ResumeToken.Enabled, Setting: section + "resume_token" + enabled,
		},
		dialect.Spoken{
			Dialect: dialect.Resumable{Capabilities: capabilities(c.Resumable.Capabilities), MaxWait: c.Resumable.MaxWait, Life: life},
			Off:     !c.Resumable.Enabled, Setting: section + "resumable" + enabled,
		},
		tasks(&c.Tasks),
	)
}

// stdioDialects are those that the client on standard input and output may speak:
// the revision's own, and its extensions.
func stdioDialects(c *config.Dialects) *dialect.Set { return dialect.NewSet(tasks(&c.Tasks)) }

func tasks(c *config.Tasks) dialect.Spoken {
	return dialect.Spoken{
		Dialect: dialect.Tasks{After: c.After, TTL: c.TTL, Poll: c.Poll},
		Off:     !c.Enabled, Setting: "dialects.tasks.enabled",
	}
}

// extensions are what server/discover says of the dialects.
func extensions(c *config.Dialects, spoken *dialect.Set) (list []adapter.Extension) {
	if c.Tasks.Enabled {
		list = append(list, adapter.Extension{Name: mcp.ExtensionTasks, Value: []byte("{}")})
	}
	if value := spoken.Extension(); value != nil {
		list = append(list, adapter.Extension{Name: mcp.ExtensionDialects, Value: value})
	}
	return list
}

// capabilities are the words of the configuration as a client declares them.
func capabilities(words []string) []byte {
	modes := map[string][]string{} // by capability
	for _, word := range words {
		name, mode, narrower := strings.Cut(word, ".")
		switch {
		case narrower:
			modes[name] = append(modes[name], mode)
		case name == "elicitation":
			modes[name] = append(modes[name], "form")
		default:
			modes[name] = append(modes[name], []string(nil)...)
		}
	}
	var all []string
	for _, name := range []string{"elicitation", "sampling", "roots"} {
		if list, ok := modes[name]; ok {
			for i := range list {
				list[i] = `"` + list[i] + `":{}`
			}
			all = append(all, `"`+name+`":{`+strings.Join(list, ",")+`}`)
		}
	}
	return []byte("{" + strings.Join(all, ",") + "}")
}
