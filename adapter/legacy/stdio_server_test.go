package legacy

//lint:file-ignore SA1019 legacy servers use what 2026-07-28 deprecates

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/test/fixture/legacyhttp"
)

// childMode is the environment variable that makes the test binary a server on
// its standard input and output.
const childMode = "HOLDFAST_TEST_CHILD"

// command runs the test binary as a server.
func command(t testing.TB, mode string) *Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Command{
		Path: self, Env: []string{childMode + "=" + mode}, MaxLine: 1 << 20,
		Grace: 10 * time.Second, RestartMin: 10 * time.Millisecond, RestartMax: time.Minute,
	}
}

func serveStdio(mode string) int {
	switch mode {
	case "sdk":
		return serveSDK()
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "die":
		fmt.Fprintln(os.Stderr, "no licence found")
		return 3
	}
	return serveScript()
}

// serveSDK is a server of the official SDK.
func serveSDK() int {
	if err := sdkServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func sdkServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "stdio", Version: "1"}, legacyhttp.Options(sdk.ServerOptions{}))
	type none struct{}
	sdk.AddTool(server, &sdk.Tool{Name: "greet"}, func(ctx context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("Hello ", answer.Content["name"])}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "wait has begun")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "wait was cancelled")
		return nil, nil, ctx.Err()
	})
	return server
}

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// serveScript is a server that does what each tool's name says, and much that no
// server should.
func serveScript() int {
	in := bufio.NewReader(os.Stdin)
	var asked json.RawMessage // the call that waits for an answer
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, "not JSON:", err)
			return 4
		}
		text := func(s string) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", m.ID, s)
		}
		switch {
		case m.Method == "initialize":
			fmt.Println("My server, version 1")
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}}`+"\n", m.ID)
		case m.Method == "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`+"\n", m.ID)
		case m.Method == "notifications/cancelled":
			fmt.Fprintf(os.Stderr, "cancelled %s\n", m.Params.RequestID)
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", m.Params.RequestID) // too late
		case m.Method == "" && string(m.ID) == `"q"`:
			m.ID = asked
			text("answered")
		case m.Method != "tools/call":
		case m.Params.Name == "pid":
			text(fmt.Sprint(os.Getpid()))
		case m.Params.Name == "env":
			text(strings.Join(os.Environ(), " "))
		case m.Params.Name == "ask":
			asked = m.ID
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
		case m.Params.Name == "never":
		case m.Params.Name == "die":
			fmt.Fprintln(os.Stderr, "out of luck")
			return 7
		case m.Params.Name == "deaf": // it reads nothing more
			select {}
		case m.Params.Name == "progress":
			for i := range 100 {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", m.Params.Meta.Token, i)
			}
			text("done")
		case m.Params.Name == "batch":
			fmt.Printf(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}},{"nonsense":1},{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`+"\n", m.Params.Meta.Token, m.ID)
		case m.Params.Name == "broken":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[}}`+"\n", m.ID)
		case m.Params.Name == "broken last":
			fmt.Printf(`{"result":{"content":[}},"jsonrpc":"2.0","id":%s}`+"\n", m.ID)
		case m.Params.Name == "long":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", m.ID, strings.Repeat("x", 2<<20))
		case m.Params.Name == "long last":
			fmt.Printf(`{"result":{"content":[{"type":"text","text":%q}],"structuredContent":{"id":7}},"jsonrpc":"2.0","id":%s}`+"\n", strings.Repeat("x", 2<<20), m.ID)
		case m.Params.Name == "leave one behind":
			left := exec.Command("sleep", "300")
			left.Stdout, left.Stderr = os.Stdout, os.Stderr
			if err := left.Start(); err != nil {
				return 5
			}
			text(fmt.Sprint(left.Process.Pid))
		}
	}
}
