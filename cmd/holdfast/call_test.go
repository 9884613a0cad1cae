package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestCallAsksThePersonRoundByRound(t *testing.T) {
	s := serveTables(t)
	typed := strings.Join([]string{
		"12",      // guests: too many
		"four",    // no number
		"",        // required
		"4",       // fits
		"A",       // name: too short
		"Ann Lee", // fits
		"terrace", // area by its title
		"3",       // extras: no such choice
		"hats, 1", // extras by title and number
		"ann",     // mail: not one
		"!skip",   // left out
		"",        // candle: the default
		"edit",    // look again:
		"5", "", "", "", "", "no",
		"yes",
		"perhaps", // the link: neither word
		"accept",
	}, "\n") + "\n"
	got := runCall(t, typed, s.URL, "book", "--arg", "restaurant=42", "--arg", "guests=2", "--arg", "window=true", "--log-level", "info")
	got.expect(t, callDone, []string{
		`{"restaurant":"42","guests":2,"window":true}`,
		`"area":"out"`, `"candle":false`, `"extras":["hat","cake"]`, `"guests":5`, `"name":"Ann Lee"`, `accept`,
	}, []string{
		"“bistro” at 127.0.0.1", "Who comes?", "Guests (whole number, 1 to 8, required)", "at most 8", "type a number", "this field is required",
		"at least 2 characters", "2) out – Terrace", "area [in]", "not a valid email", "candle [yes]", "mail: ",
		"guests [4]", "page: https://pay.example.com/deposit?table=1", "host: pay.example.com", "Nothing is opened",
		"progress: 1 of 2: looking", "log info tables: a guest",
	})
	if strings.Contains(got.stdout, "mail") {
		t.Errorf("a skipped field was sent: %s", got.stdout)
	}
	if header := s.sent("Mcp-Param-Restaurant"); header != "42" {
		t.Errorf("Mcp-Param-Restaurant is %q, want 42", header)
	}
}

func TestCallDeclinesAndDismisses(t *testing.T) {
	s := serveTables(t)
	got := runCall(t, "!decline\ncancel\n", s.URL, "book", "--arg", "restaurant=x")
	got.expect(t, callDone, []string{`"action":"decline"`, "cancel"}, nil)
	got = runCall(t, "2\nAnn\n\n\n\n\n!cancel\ndecline\n", s.URL, "book", "--arg", "restaurant=x")
	got.expect(t, callDone, []string{`"action":"cancel"`, "decline"}, nil)
	if strings.Contains(got.stdout, "Ann") {
		t.Errorf("a dismissed form was sent: %s", got.stdout)
	}
}

func TestCallAnswersRootsAndSampling(t *testing.T) {
	s := serveTables(t)
	got := runCall(t, "\nRoses\nare red\n\n", s.URL, "ask_all", "--root", "file:///srv/menu=Menu", "--root", "file:///tmp")
	got.expect(t, callDone, []string{
		`{"name":"Menu","uri":"file:///srv/menu"}`, `{"uri":"file:///tmp"}`, `Roses\nare red`, `"model":"human"`, `"stopReason":"endTurn"`,
	}, []string{"[system]\n  Be brief.", "[user]\n  A poem, please.", "at most 50 tokens"})
	if strings.Contains(got.stderr, "\x1b") {
		t.Error("a control character of the server reached the terminal")
	}
	got = runCall(t, "!decline\n", s.URL, "ask_all", "--root", "file:///tmp")
	got.expect(t, callMisused, nil, []string{`key "poem"`, "declined"})
}

func TestCallWithPreparedAnswers(t *testing.T) {
	s := serveTables(t)
	got := runScript(t, s.URL, "book", "--args", `{"restaurant":"Chez nous – 日本","guests":1}`, "--arg", "guests=3",
		"--answer", `party={"guests":2,"name":"Bo"}`, "--answers", answerFile(t, `{"consent":"decline","spare":{}}`))
	got.expect(t, callDone, []string{`"guests":3`, `{"action":"accept","content":{"guests":2,"name":"Bo"}}`, "decline"},
		[]string{`the answer for "spare" was not asked for`})
	if header := s.sent("Mcp-Param-Restaurant"); header != "=?base64?Q2hleiBub3VzIOKAkyDml6XmnKw=?=" {
		t.Errorf("Mcp-Param-Restaurant is %q", header)
	}
	got = runScript(t, s.URL, "ask_all", "--root", "file:///a", "--answer", "poem=Roses", "--answer", `places=[{"uri":"file:///b"}]`)
	got.expect(t, callDone, []string{`"text":"Roses"`, `{"roots":[{"uri":"file:///b"}]}`}, nil)
}

func TestCallNamesTheKeyThatHasNoAnswer(t *testing.T) {
	s := serveTables(t)
	got := runScript(t, s.URL, "book", "--arg", "restaurant=x")
	got.expect(t, callMisused, nil, []string{`no answer for "party"`, "--answer 'party=JSON'", `"requestedSchema"`})
	got = runCall(t, "", s.URL, "book", "--arg", "restaurant=x")
	got.expect(t, callMisused, nil, []string{`key "party"`, "the input ended"})
}

func TestCallDeclaresOnlyWhatItCanAnswer(t *testing.T) {
	s := serveTables(t)
	got := runScript(t, s.URL, "--discover", "--trace", "--no-elicitation", "--no-sampling")
	got.expect(t, callDone, nil, []string{`"io.modelcontextprotocol/clientCapabilities": {}`})
	got = runScript(t, s.URL, "--discover", "--trace", "--root", "file:///a")
	got.expect(t, callDone, nil, []string{`"elicitation": {`, `"form": {}`, `"url": {}`, `"sampling": {}`, `"roots": {}`})
	got = runScript(t, s.URL, "ask_all", "--no-sampling", "--root", "file:///a")
	got.expect(t, callNoAnswer, nil, []string{`asks for "sampling/createMessage"`, "did not declare"})
}

func TestCallEndsWithTheRightCode(t *testing.T) {
	s := serveTables(t)
	runScript(t, s.URL, "fail").expect(t, callToolError, []string{"closed today"}, []string{"the tool reported an error"})
	runScript(t, s.URL, "boom").expect(t, callRPCError, nil, []string{"error -32602: stale state (reason: expired)", `data: {"reason":"expired","round":3}`})
	runScript(t, s.URL, "nothing").expect(t, callRPCError, nil, []string{`does not list a tool "nothing"`, "-32602"})
	runScript(t, s.URL+"/mcp", "busy", "--timeout", "20s").expect(t, callDone, []string{"state later"}, []string{"wants the call again"})

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	runScript(t, closed, "--list").expect(t, callNoAnswer, nil, []string{"connection refused"})
}

func TestCallPrintsResults(t *testing.T) {
	s := serveTables(t)
	got := runScript(t, s.URL, "show")
	if want := "three\n[image, image/png, 5 bytes]\n[link to resource menu, file:///menu]\n{\n  \"tables\": 3\n}\n"; got.stdout != want {
		t.Errorf("got %q, want %q", got.stdout, want)
	}
	runScript(t, s.URL, "show", "--json").expect(t, callDone, []string{`"structuredContent":{"tables":3}`, `"resultType":"complete"`}, nil)
	runScript(t, s.URL, "--list").expect(t, callDone, []string{
		"book restaurant=string [guests=integer] [window=boolean]\n    The tool book.\n"}, nil)
	runScript(t, s.URL, "--list", "--json").expect(t, callDone, []string{`{"tools":[{`, `"x-mcp-header":"Restaurant"`}, nil)
	runScript(t, s.URL, "--discover").expect(t, callDone, []string{"server: bistro 1.2.3", "2026-07-28", "Book early."}, nil)
}

func TestCallTraceIsReadableAndKeepsSecrets(t *testing.T) {
	s := serveTables(t)
	t.Setenv("TABLE_TOKEN", "s3cr3t")
	long := `{"action":"accept","content":{"guests":2,"name":"` + strings.Repeat("n", 60) + `"}}`
	got := runScript(t, s.URL, "book", "--arg", "restaurant=x", "--bearer-env", "TABLE_TOKEN", "--header", "X-Api-Key: s3cr3t", "--header", "X-Table: 9",
		"--answer", "party="+long, "--answer", "consent=accept", "--trace", "--trace-lines", "25")
	got.expect(t, callDone, nil, []string{
		"→ POST " + s.URL, "Mcp-Method: tools/call", "Mcp-Name: book", "Mcp-Protocol-Version: 2026-07-28", "X-Table: 9",
		"Authorization: (not shown)", "X-Api-Key: (not shown)", "← 200 OK", "SSE event", `"inputResponses": {`,
		"bytes)\"", "more lines",
	})
	if strings.Contains(got.stderr, "s3cr3t") {
		t.Error("the trace shows a credential")
	}
	if s.sent("Authorization") != "Bearer s3cr3t" {
		t.Error("the credential was not sent")
	}
}

// An interrupt closes the connection, which is how a modern client cancels.
func TestCallInterruptCancelsAtTheServer(t *testing.T) {
	s := serveTables(t)
	codes := make(chan int, 1)
	var stderr strings.Builder
	go func() {
		codes <- call(context.Background(), []string{s.URL, "wait"}, strings.NewReader(""), io.Discard, &stderr)
	}()
	<-s.waiting
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := <-codes; code != callInterrupted {
		t.Errorf("exit code %d, want %d: %s", code, callInterrupted, stderr.String())
	}
	<-s.left
}

func TestCallTimesOut(t *testing.T) {
	s := serveTables(t)
	got := runScript(t, s.URL, "wait", "--timeout", "300ms")
	got.expect(t, callNoAnswer, nil, []string{"tools/call: no answer in time (300ms)"})
	<-s.left
}

func TestCallAtAPromptEndsWithItsContext(t *testing.T) {
	s := serveTables(t)
	ctx, cancel := context.WithCancel(context.Background())
	typed, typing := io.Pipe()
	prompts := promptWriter{seen: cancel}
	if code := call(ctx, []string{s.URL, "book", "--arg", "restaurant=x"}, typed, io.Discard, &prompts); code != callInterrupted {
		t.Errorf("exit code %d, want %d: %s", code, callInterrupted, prompts.text.String())
	}
	if err := typing.Close(); err != nil { // ends the read that was left behind
		t.Fatal(err)
	}
}

// promptWriter calls seen when a field is asked for.
type promptWriter struct {
	text strings.Builder
	seen func()
}

func (w *promptWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "guests: ") {
		w.seen()
	}
	return w.text.Write(p)
}

func TestCallRefusesWrongUse(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"http://h/mcp"},
		{"h/mcp", "tool"},
		{"ftp://h/mcp", "tool"},
		{"http://h/mcp", "tool", "more"},
		{"http://h/mcp", "tool", "--arg", "novalue"},
		{"http://h/mcp", "tool", "--header", "Mcp-Name: other"},
		{"http://h/mcp", "tool", "--header", "content-type: text/plain"},
		{"http://h/mcp", "tool", "--root", "https://example.com"},
		{"http://h/mcp", "tool", "--log-level", "loud"},
		{"http://h/mcp", "tool", "--timeout", "-1s"},
		{"http://h/mcp", "tool", "--bearer-env", "HOLDFAST_TEST_NOT_SET"},
		{"http://h/mcp", "tool", "--answers", "/nonexistent/answers"},
		{"http://h/mcp", "tool", "--nonsense"},
	} {
		if got := runScript(t, args...); got.code != callMisused || got.stdout != "" || got.stderr == "" {
			t.Errorf("%q: got %+v", args, got)
		}
	}
	got := runScript(t, "--help")
	got.expect(t, callDone, []string{"usage: holdfast call URL TOOL", "-answers", "!decline"}, nil)
}
