package peer

import (
	"strings"
	"testing"
)

func TestOfficialSays(t *testing.T) {
	for name, c := range map[string]struct{ said, wrong string }{
		"a task":             {`{"kind":"task","seen":["working","completed"],"asked":[{"method":"roots/list","params":{}}],"result":{"n":1.0}}`, ""},
		"no task":            {`{"kind":"immediate"}`, "no task"},
		"a task that failed": {`{"kind":"task","seen":["working","failed"]}`, `"failed"`},
		"a failure":          {`{"failure":"TypeError: no"}`, "TypeError: no"},
		"nonsense":           {`{`, "says {"},
	} {
		t.Run(name, func(t *testing.T) {
			var client Official
			var o Outcome
			err := client.read([]byte(c.said+"\n"), &o)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v, want an error with %s", err, c.wrong)
				}
				return
			}
			if err != nil || len(o.Asked) != 1 || o.Asked[0].Method != "roots/list" || len(client.Asked()) != 1 || o.Result == nil {
				t.Errorf("got %+v, %v", o, err)
			}
		})
	}
}
