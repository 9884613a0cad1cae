package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// lists asks what there is.
func lists() []step {
	steps := []step{{subject: subject{"server", "server/discover"}, play: func(ctx context.Context, c client) ([]peer.Outcome, error) {
		return outcomes(c.Hello(ctx))
	}}}
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		steps = append(steps, request(subject{"server", method}, peer.Request{Method: method}))
	}
	return steps
}

// roots looks back at what the server asked for by itself.
func roots() []step {
	return []step{{subject: subject{"input request", "roots/list"}, play: func(_ context.Context, c client) ([]peer.Outcome, error) {
		for _, q := range c.Asked() {
			if q.Method == methodRoots {
				return []peer.Outcome{{Result: object{"method": q.Method, "params": q.Params}}}, nil
			}
		}
		return nil, errors.New("the server never asked for roots")
	}}}
}

// logging switches the server's log messages on and runs something long enough
// to hear one of them: it sends one every five seconds. Without a level, none
// may come.
func logging(level string) []step {
	toggle := func(what string) step {
		r := toolCall("toggle-simulated-logging", object{})
		s := request(subject{"tool", "toggle-simulated-logging"}, r, sessionID)
		s.what = what
		return s
	}
	hear := subject{"notification", "notifications/message at level " + level}
	if level == "" {
		hear.name = "notifications/message without a level"
	}
	r := toolCall("trigger-long-running-operation", object{"duration": 6, "steps": 3})
	r.Progress, r.LogLevel = true, level
	heard := step{subject: hear, masks: []mask{logMessages}, play: func(ctx context.Context, c client) ([]peer.Outcome, error) {
		o, err := c.Call(ctx, r)
		if err == nil && (len(o.Log) > 0) != (level != "") {
			err = fmt.Errorf("%d log messages", len(o.Log))
		}
		return outcomes(o, err)
	}}
	return []step{toggle("switching on"), heard, toggle("switching off")}
}

// listening hears of changes to resources, which the server tells only on the
// session that subscribed to them and that switched the telling on: at once,
// and every five seconds.
func listening() []step {
	const toggle = "toggle-subscriber-updates"
	updated := step{subject: subject{"tool", toggle}, what: "with a listener", masks: []mask{sessionID}}
	updated.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		filter := peer.Filter{Resources: []string{documents + "features.md", documents + "startup.md"}}
		return hearing(ctx, c, filter, 2*len(filter.Resources), toolCall(toggle, object{}))
	}
	off := tool(toggle, object{}, sessionID)
	off.what = "switching off"
	listed := step{subject: subject{"notification", "notifications/resources/list_changed"}}
	listed.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		return hearing(ctx, c, peer.Filter{ResourcesListChanged: true}, 1,
			toolCall("gzip-file-as-resource", object{"name": "heard.gz", "data": "data:,heard", "outputType": "resourceLink"}))
	}
	return []step{updated, off, listed}
}

// hearing listens, makes a request that causes updates, and waits for some.
func hearing(ctx context.Context, c client, f peer.Filter, updates int, r peer.Request) (_ []peer.Outcome, err error) {
	listener, err := c.Listen(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	o, err := c.Call(ctx, r)
	if err != nil {
		return nil, err
	}
	for len(o.Updates) < updates {
		select {
		case update, open := <-listener.Updates:
			if !open {
				return nil, errors.New("the listener ended")
			}
			o.Updates = append(o.Updates, update)
		case <-ctx.Done():
			return nil, fmt.Errorf("heard %v, want %d updates: %w", o.Updates, updates, context.Cause(ctx))
		}
	}
	return []peer.Outcome{o}, nil
}

// until is a tool that is called again and again until its answer ends with a
// text: what the answer depends on comes beside.
func until(name, end string) step {
	s := tool(name, object{})
	s.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			o, err := c.Call(ctx, toolCall(name, object{}))
			if err != nil || strings.HasSuffix(said(o), end) {
				return outcomes(o, err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil, fmt.Errorf("%s says %q, which never ends with %q: %w", name, said(o), end, context.Cause(ctx))
			}
		}
	}
	return s
}

// said is the text of a tool's first content.
func said(o peer.Outcome) string {
	result, _ := o.Result.(map[string]any)
	contents, _ := result["content"].([]any)
	if len(contents) == 0 {
		return ""
	}
	first, _ := contents[0].(map[string]any)
	text, _ := first["text"].(string)
	return text
}
