package adapter

import "testing"

func TestPhases(t *testing.T) {
	names := []string{starting: "starting", running: "running", parked: "parked", done: "done"}
	possible := map[[2]phase]bool{
		{starting, running}: true, // sent
		{starting, parked}:  true, // asked before the request could be sent
		{starting, done}:    true,
		{running, starting}: true, // met a session that is gone
		{running, parked}:   true,
		{running, done}:     true,
		{parked, running}:   true, // the client has come back
		{parked, starting}:  true, // likewise, and the request is sent anew
		{parked, done}:      true,
	}
	for from := starting; from <= done; from++ {
		for to := starting; to <= done; to++ {
			c := &call{phase: from}
			want := possible[[2]phase{from, to}]
			if got := c.enter(to); got != want {
				t.Errorf("from %s to %s: %v, want %v", names[from], names[to], got, want)
			}
			wantPhase := from
			if want {
				wantPhase = to
			}
			if c.phase != wantPhase {
				t.Errorf("from %s to %s: the phase is %s, want %s", names[from], names[to], names[c.phase], names[wantPhase])
			}
		}
	}
}
