package legacy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
)

// A request of Holdfast's own says what every modern request says.
func TestInquire(t *testing.T) {
	there := modernserver.New(t)
	there.Handle("tools/list", func(x *modernserver.Exchange) {
		x.Stream()
		x.Notify(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"looking"}}`)
		x.Result(`{"tools":[]}`)
	})
	there.Handle("prompts/list", func(x *modernserver.Exchange) { x.Error(400, `{"code":-32602,"message":"no","data":[1]}`) })
	there.Handle("ping", func(x *modernserver.Exchange) { <-x.Gone() })
	s := newTestServer(t, testSettings(there.URL))
	id := []byte(`"a-1"`)

	result, err := s.Inquire(t.Context(), Credentials{}, id, "tools/list", []byte(`{"cursor":"c"}`))
	if err != nil || string(result) != `{"tools":[]}` {
		t.Errorf("got %s, %v", result, err)
	}
	r := there.Records("tools/list")[0]
	params := jsonrpc.Get([]byte(r.Body), "params")
	meta := jsonrpc.Get(params, "_meta")
	if got := jsonrpc.Get(params, "cursor"); string(got) != `"c"` {
		t.Errorf("the cursor is %s", got)
	}
	for name, want := range map[string]string{
		mcp.MetaProtocolVersion:    `"2026-07-28"`,
		mcp.MetaClientInfo:         `{"name":"` + s.settings.ClientName + `","version":"` + s.settings.ClientVersion + `"}`,
		mcp.MetaClientCapabilities: `{}`,
	} {
		if got := jsonrpc.Get(meta, name); string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := r.Header.Get(mcp.HeaderMethod); got != "tools/list" {
		t.Errorf("%s is %q", mcp.HeaderMethod, got)
	}

	var said *jsonrpc.Error
	if _, err := s.Inquire(t.Context(), Credentials{}, id, "prompts/list", nil); !errors.As(err, &said) || said.Code != -32602 || string(said.Data) != "[1]" {
		t.Errorf("an error is %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Inquire(ctx, Credentials{}, id, "ping", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence is %v", err)
	}
}

// Who is silent is of no known era, whoever has stopped waiting.
func TestProbeOfSilence(t *testing.T) {
	there := modernserver.New(t)
	there.Handle("server/discover", func(x *modernserver.Exchange) { <-x.Gone() })
	settings := testSettings(there.URL)
	settings.OpenTimeout = 50 * time.Millisecond
	s := newTestServer(t, settings)
	if era, err := s.Probe(t.Context(), Credentials{}); era != EraUnknown || !errors.Is(err, ErrDeadline) {
		t.Errorf("after open_timeout: %v, %v", era, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if era, err := s.Probe(ctx, Credentials{}); era != EraUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("after its caller has gone: %v, %v", era, err)
	}
}
