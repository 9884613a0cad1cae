//go:build unix

package stdio

import (
	"bufio"
	"strings"
	"testing"
)

// A log that nobody reads holds up nothing, and says later what is missing.
func TestLogWithoutReader(t *testing.T) {
	r, w := pipe(t)
	log := OpenLog(w)
	line := []byte(strings.Repeat("x", 9999) + "\n")
	const n = 1000
	for range n { // far more than a pipe holds
		if m, err := log.Write(line); m != len(line) || err != nil {
			t.Fatalf("wrote %d bytes, %v", m, err)
		}
	}
	read := make(chan []string)
	go func() {
		var lines []string
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			if lines = append(lines, scanner.Text()); scanner.Text() == "last" {
				break
			}
		}
		read <- lines
	}()
	var lines []string
	for lines == nil { // until there is room again, and the end has come through
		if _, err := log.Write([]byte("last\n")); err != nil {
			t.Fatal(err)
		}
		select {
		case lines = <-read:
		default:
		}
	}
	whole := 0
	for _, l := range lines {
		if len(l) == 9999 {
			whole++
		}
	}
	// Whole lines, maybe one that is cut, a note or two, and what came then.
	if rest := len(lines) - whole; whole == 0 || whole >= n || rest > 5 {
		t.Errorf("%d whole lines of %d", whole, len(lines))
	}
	if note := lines[len(lines)-2]; !strings.Contains(note, "has lost lines") {
		t.Errorf("before the last line stands %.100q", note)
	}
}

func TestLogWhoseReaderIsGone(t *testing.T) {
	r, w := pipe(t)
	log := OpenLog(w)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := log.Write([]byte("x\n")); n != 2 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}
}
