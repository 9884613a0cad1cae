package adapter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

func TestUnreachable(t *testing.T) {
	for _, test := range []struct {
		why  error
		want string
	}{
		{nil, "upstream up cannot be reached"},
		{errors.New("refused"), "upstream up cannot be reached: refused"},
		{fmt.Errorf("%w: its last\nwords\x00 are\t\"no\"", legacy.ErrUnreachable), `upstream up cannot be reached: its last words are "no"`},
	} {
		if got := unreachable("up", test.why); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	long := unreachable("up", errors.New("begin"+strings.Repeat("\u00fc\u20ac", 10_000)+"end"))
	if len(long) > 2*maxWhy || !strings.Contains(long, ": begin") || !strings.HasSuffix(long, "end") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("got %d bytes: %.100q", len(long), long)
	}
}
