package load

import "fmt"

// Spread is one modern client of several replicas. Its plain calls keep to one
// of them, as those on one connection do behind a load balancer; the retry of a
// call goes to the next, on a connection of its own.
type Spread struct {
	home, next *Modern
}

// NewSpread returns the client of a slot; slots have their homes in turn.
func NewSpread(addrs []string, path string, slot int) *Spread {
	s := &Spread{home: NewModern(addrs[slot%len(addrs)], path, slot)}
	s.next = s.home
	if len(addrs) > 1 {
		s.next = NewModern(addrs[(slot+1)%len(addrs)], path, slot)
	}
	return s
}

// Close closes the client's connections.
func (s *Spread) Close() {
	s.home.Close()
	s.next.Close()
}

// Echo calls the tool echo once.
func (s *Spread) Echo() error { return s.home.Echo() }

// Ask calls the tool ask, and answers its question at another replica.
func (s *Spread) Ask() error {
	p, err := s.home.Park()
	if err != nil {
		return fmt.Errorf("first round: %w", err)
	}
	if err := s.next.Resume(p); err != nil {
		return fmt.Errorf("second round, at the next replica: %w", err)
	}
	return nil
}
