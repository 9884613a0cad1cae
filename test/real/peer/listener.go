package peer

// Listener hears what a client asked for with Listen.
type Listener struct {
	// Updates is bounded: more than it holds is an error of Close. It may be
	// closed where the listener ends by itself.
	Updates <-chan Update
	close   func() error
}

// Close ends the listener, waits until it has ended, and says what broke it
// before, if anything did.
func (l *Listener) Close() error { return l.close() }

// maxUpdates is how many updates wait for their reader.
const maxUpdates = 64

// wants reports whether a filter asks for a notification.
func (f Filter) wants(method string, params any) bool {
	switch method {
	case "notifications/resources/updated":
		members, _ := params.(map[string]any)
		for _, uri := range f.Resources {
			if members["uri"] == uri {
				return true
			}
		}
		return false
	case "notifications/resources/list_changed":
		return f.ResourcesListChanged
	}
	return false
}
