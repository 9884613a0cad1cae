package modern

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func readEvents(r io.Reader) ([]Event, error) {
	events := newEventReader(r)
	var all []Event
	for {
		event, err := events.next()
		if err != nil {
			return all, err
		}
		all = append(all, event)
	}
}

func TestEventReader(t *testing.T) {
	data := func(texts ...string) []Event {
		var events []Event
		for _, text := range texts {
			events = append(events, Event{Data: []byte(text)})
		}
		return events
	}
	for _, test := range []struct {
		name, stream string
		want         []Event
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", data("a", "b")},
		{"carriage returns", "data: a\r\rdata: b\r\r", data("a", "b")},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")},
		{"byte order mark", "\uFEFFdata: a\n\n", data("a")},
		{"several data lines", "data: a\ndata:\ndata: b\n\n", data("a\n\nb")},
		{"an empty first data line", "data:\ndata: b\n\n", data("\nb")},
		{"one space is taken off", "data:  a\n\ndata:b\n\n", data(" a", "b")},
		{"priming event", "id: 1\ndata:\n\ndata: a\n\n", data("a")},
		{"id and retry", "id: 7\nretry: 10\ndata: a\n\n", data("a")},
		{"named", "event: message\ndata: a\n\n", []Event{{Name: "message", Data: []byte("a")}}},
		{"the name does not outlive its event", "event: x\n\ndata: a\n\n", data("a")},
		{"comments", ": hi\n\ndata: a\n:inside\ndata: b\n\n:\n\n", []Event{
			{Comment: true, Data: []byte("hi")}, {Data: []byte("a\nb")}, {Comment: true, Data: []byte{}}}},
		{"no end", "data: a\n\ndata: b\n", data("a")},
		{"field without colon", "data\ndata: x\n\n", data("\nx")},
		{"nothing", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for kind, reader := range map[string]io.Reader{
				"whole": strings.NewReader(test.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(test.stream)),
			} {
				got, err := readEvents(reader)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: ended with %v, want EOF", kind, err)
				}
				if !reflect.DeepEqual(got, test.want) {
					t.Errorf("%s: got %+v, want %+v", kind, got, test.want)
				}
			}
		})
	}
}

// endless gives the same bytes for ever.
type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

func TestEventReaderIsBounded(t *testing.T) {
	for _, stream := range []endless{"x", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"} {
		if _, err := readEvents(stream); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%q for ever: got %v, want ErrTooLarge", stream, err)
		}
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("\uFEFF: hi\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\"}\r\n\r\n"))
	f.Add([]byte("id: 1\ndata:\n\ndata: a\rdata: b\r\r"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, wholeErr := readEvents(bytes.NewReader(stream))
		pieces, piecesErr := readEvents(iotest.OneByteReader(bytes.NewReader(stream)))
		if !reflect.DeepEqual(whole, pieces) || wholeErr.Error() != piecesErr.Error() {
			t.Fatalf("how the bytes come makes a difference: %+v (%v) or %+v (%v)", whole, wholeErr, pieces, piecesErr)
		}
		for _, event := range whole {
			if !event.Comment && len(event.Data) == 0 {
				t.Fatalf("an event without data: %+v", event)
			}
		}
	})
}
