package wait

import (
	"context"
	"sync"
	"time"
)

// timers are stopped.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// For waits for something to come, or for the channel to be closed, and reports
// that; false at until. Where both are so, either may be reported.
//
// Hot: once per event.
func For[T any](from <-chan T, until time.Time) (got T, came bool) {
	t := timers.Get().(*time.Timer)
	t.Reset(time.Until(until))
	select {
	case got = <-from:
		came = true
	case <-t.C:
	}
	t.Stop() // since Go 1.23, nothing of it is left in its channel then
	timers.Put(t)
	return got, came
}

// Pause waits for so long; false when ctx has ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	_, ended := For(ctx.Done(), time.Now().Add(d))
	return !ended
}
