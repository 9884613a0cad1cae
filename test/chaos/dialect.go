package main

import "slices"

// Dialect is how a client speaks.
type Dialect string

const (
	MRTR              Dialect = "mrtr"
	IncompleteResult  Dialect = "incomplete-result"
	DependentRequests Dialect = "dependent-requests"
	Saga              Dialect = "saga"
	ResumeToken       Dialect = "resume-token"
	Following         Dialect = "resumable" // named for what its clients do: a tool is called Resumable
	Tasks             Dialect = "tasks"
)

// Dialects are all of them, the one of the specification first.
var Dialects = []Dialect{MRTR, IncompleteResult, DependentRequests, Saga, ResumeToken, Following, Tasks}

// spoken are the dialects of successive calls: every other one is MRTR's.
var spoken = func() (list []Dialect) {
	for _, d := range Dialects[1:] {
		list = append(list, MRTR, d)
	}
	return list
}()

// Modern reports whether requests have the envelope of the revision.
func (d Dialect) Modern() bool { return d == MRTR || d == Tasks }

// Asks are the questions that a dialect has a form for. A client without _meta
// declares nothing, and has what the settings say.
func (d Dialect) Asks(bare bool) []Kind {
	switch {
	case d == ResumeToken:
		return nil
	case d == Saga, bare:
		return []Kind{Elicit, Elicit, Sampling}
	}
	return []Kind{Elicit, Elicit, Sampling, Roots}
}

// Terms are what the client of a dialect may be told of a call for which it holds
// a handle, and which it has not left: README, "When a replica dies" and
// "Dialects".
type Terms struct {
	// Handle is what it holds.
	Handle string
	// Carried are the tools whose calls come to their outcome whatever happens to
	// replicas, links and NATS: they are taken over, or run again.
	Carried []Tool
	// Lost are the reasons that all other calls may end with instead. The client is
	// told, too, that the call may have run.
	Lost []string
}

// Conditions are the terms of each dialect. What is told in no dialect is that a
// call has ended well which has not, that it has ended in two ways, what another
// caller's call has to say, or nothing at all.
var Conditions = map[Dialect]Terms{
	MRTR:              {"request state", carriedByState, lost},
	IncompleteResult:  {"request state", carriedByState, lost},
	DependentRequests: {"key with a request state in it", carriedByState, lost},
	Saga:              {"saga token", carriedByState, lost},
	ResumeToken:       {"resume token", carriedByState, lost},
	Following:         {"resume token, which carries the request", carriedByState, lost},
	// An id has no room for the request: nothing runs again where its replica is gone,
	// and one that stops ends what others cannot go on with.
	Tasks: {"task id", []Tool{Resumable}, lost},
}

var (
	carriedByState = []Tool{Resumable, Idempotent, ReadOnly}
	lost           = []string{"call_lost", "upstream_lost"}
)

// terms are those that the call's client has. Until there is a task it holds a
// request state of MRTR.
func (e *Ended) terms() Terms {
	if e.Dialect == Tasks && !e.Task {
		return Conditions[MRTR]
	}
	return Conditions[e.Dialect]
}

// Carried reports whether the failover ladder can carry the call.
func (e *Ended) Carried() bool { return slices.Contains(e.terms().Carried, e.Tool) }

// toldLost reports whether the client was told why the call is lost, and that it
// may have run.
func (e *Ended) toldLost() bool { return e.MayRun && slices.Contains(e.terms().Lost, e.Reason) }
