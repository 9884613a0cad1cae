package bus

import "testing"

// A peer that says nothing for long says all the same that it has what it was
// sent.
func TestTaken(t *testing.T) {
	b := cluster(t, 2, nil)
	streams, release := hold(t, b[1], 'x')
	defer release()
	s, err := b[0].Ask(t.Context(), b[1].s.Replica, 'x', []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	within(t, streams, "the stream")
	await(t, "the peer to say that it has it", s.Taken)
}
