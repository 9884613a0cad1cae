package adapter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Clients that leave, come back twice, answer in part and forget, all at once,
// while calls expire: whatever happens, no answer reaches the server twice, no
// client sees another's data or reused memory, and nothing is left at the end.
func TestClientsThatComeAndGo(t *testing.T) {
	for name, tt := range map[string]struct {
		change change
		tool   func(*rawserver.Call)
	}{
		"event streams":     {func(*Settings, *legacy.Settings, *rawserver.Settings) {}, askOnTheCall},
		"calls that expire": {func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) { s.ParkTTL = 3 * time.Millisecond }, askOnTheCall},
		"outcomes that are let go": {func(s *Settings, _ *legacy.Settings, _ *rawserver.Settings) {
			s.MaxOutcomeBytes, s.OutcomeTTL = 3*callOverhead, 2*time.Millisecond
		}, askOnTheCall},
		"limits": {func(s *Settings, l *legacy.Settings, _ *rawserver.Settings) {
			s.MaxParked, s.MaxCalls, s.MaxRounds = 3, 6, 3
			l.MaxIdleConns = 1
		}, askOnTheCall},
		"the GET stream": {func(s *Settings, l *legacy.Settings, _ *rawserver.Settings) {
			s.ParkTTL = 10 * time.Millisecond // a parked call holds its session
			l.PushesOnGET, l.MaxPerKey, l.Queue = true, 2, 1000
		}, func(c *rawserver.Call) {
			a := c.Session.Push(mcp.MethodElicit, askFor("v")).Wait()
			c.Text(c.Argument("who") + a.Content("v"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.change)
			r.raw.Tool("ask", tt.tool)
			var clients sync.WaitGroup
			for n := range 8 {
				clients.Go(func() {
					random := rand.New(rand.NewPCG(uint64(n), 7))
					for i := range 40 {
						r.comeAndGo(random, fmt.Sprintf("client%d.%d", n, i))
					}
				})
			}
			clients.Wait()
			answered := make(map[string]int)
			for _, record := range r.raw.Records() {
				if record.HTTP == http.MethodPost && len(record.Messages) == 1 && record.Messages[0].Method == "" {
					answered[record.Header.Get("Mcp-Session-Id")+" "+string(record.Messages[0].ID)]++
				}
				if strings.Contains(string(record.Body), "###") {
					t.Errorf("the server was sent memory of a request that was over: %.200s", record.Body)
				}
			}
			for question, n := range answered {
				if n != 1 {
					t.Errorf("question %s was answered %d times", question, n)
				}
			}
			if len(answered) == 0 {
				t.Error("no question was answered")
			}
		})
	}
}

func askOnTheCall(c *rawserver.Call) {
	c.Progress(1, 2)
	a, b := c.Start(mcp.MethodElicit, askFor("v")), c.Start(mcp.MethodElicit, askFor("v"))
	first := a.Wait().Content("v")
	third := c.Ask(mcp.MethodElicit, askFor("v"))
	c.Text(c.Argument("who") + first + b.Wait().Content("v") + third.Content("v"))
}

// comeAndGo is the life of one call, as a careless client lives it.
func (r *rig) comeAndGo(random *rand.Rand, who string) {
	q := toolCall("ask")
	q.params += `,"arguments":{"who":"` + who + `"}`
	q.token, q.auth = `"`+who+`"`, fmt.Sprintf("caller%d", random.IntN(3))
	for range 6 {
		o := r.visitOnce(random, q, who)
		if o == nil || o.State == nil {
			return
		}
		q.state, q.responses = string(o.State), ""
		var answers []string
		for _, in := range o.Inputs {
			if random.IntN(5) > 0 {
				answers = append(answers, `"`+in.Key+`":{"action":"accept","content":{"v":"`+who+`"}}`)
			}
		}
		q.responses = "{" + strings.Join(answers, ",") + "}"
		if random.IntN(10) == 0 {
			return // it never comes back
		}
	}
}

// visitOnce plays a round, or the same one several times at once.
func (r *rig) visitOnce(random *rand.Rand, q query, who string) *Outcome {
	copies := 1
	if q.state != "" {
		copies += random.IntN(3)
	}
	var visits []*visit
	for range copies {
		v, err := r.begin(q)
		if err != nil {
			r.expectRefusal(err)
			continue
		}
		visits = append(visits, v)
	}
	outcomes := make([]*Outcome, len(visits))
	var rounds sync.WaitGroup
	for i, v := range visits {
		leaves := random.IntN(4) == 0
		after := time.Duration(random.IntN(2000)) * time.Microsecond
		rounds.Go(func() {
			var leaving sync.WaitGroup
			if leaves {
				leaving.Go(func() {
					time.Sleep(after)
					v.Gone()
				})
			}
			o, told, err := v.finish()
			leaving.Wait()
			if err != nil {
				r.expectRefusal(err)
				return
			}
			for _, n := range told {
				if !strings.Contains(n, who) {
					r.t.Errorf("%s was told %s", who, n)
				}
			}
			if o.State == nil {
				// A result has nothing of anybody else.
				if rest := strings.ReplaceAll(string(o.Result)+string(o.Error), who, ""); strings.Contains(rest, "client") || strings.Contains(rest, "##") {
					r.t.Errorf("%s got %s%s", who, o.Result, o.Error)
				}
			}
			outcomes[i] = o
		})
	}
	rounds.Wait()
	for _, o := range outcomes {
		if o != nil {
			return o
		}
	}
	return nil
}

func (r *rig) expectRefusal(err error) {
	var refusal *Refusal
	switch {
	case errors.Is(err, ErrGone):
	case errors.As(err, &refusal):
		switch refusal.Reason {
		case ReasonStateStale, ReasonStateExpired, ReasonCallLost, ReasonOverload, ReasonQuota, ReasonTooManyRounds:
		default:
			r.t.Errorf("unexpected refusal: %v", err)
		}
	default:
		r.t.Errorf("unexpected error: %v", err)
	}
}
