package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxKeyFile bounds what is read of a key file: MaxKeys keys and as many comments.
const maxKeyFile = 64 << 10

// LoadKeyFile reads a regular file with one key of 64 hexadecimal digits a
// line. Blank lines and what follows a # do not count. A file without a key is
// an error. Errors name the file, and the line where one is at fault, but never
// what stands in it; those about the content match ErrKey.
func LoadKeyFile(path string) ([]Key, error) {
	text, err := readKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("read request-state keys: %w", err)
	}
	var keys []Key
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("read request-state keys: %s:%d: %w", path, n, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read request-state keys: %s: %w: no key in it", path, ErrKey)
	}
	return keys, nil
}

func readKeyFile(path string) (string, error) {
	// To open a pipe could wait for ever, and what it gave could not be read again.
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxKeyFile {
		return "", fmt.Errorf("%s: %w: longer than %d bytes", path, ErrKey, maxKeyFile)
	}
	return string(text), nil
}

// KeyFile keeps a ring's keys those of a file while Run runs.
type KeyFile struct {
	Path string
	Ring *Ring

	// Report, if set, hears how many keys of the file are in use, and why others are
	// not: once at the start, then whenever either changes. Run calls it and
	// waits for it.
	Report func(keys int, err error)

	// Settle is how long the directory must be quiet before the file is read
	// again, so that one written in steps is read once. Zero means 100ms. Under
	// unending changes the file is read every tenfold of it.
	Settle time.Duration

	// Poll is how often the file is read although nothing was seen: for file
	// systems without events and links changed further up. Zero means 1m.
	Poll time.Duration
}

// rearm is how soon a watch that could not be set is tried again, at most Poll.
const rearm = time.Second

// Run loads the file, and again whenever it has changed, until ctx ends. A file
// that is missing, empty or wrong leaves the ring as it is and is reported.
func (f *KeyFile) Run(ctx context.Context) {
	var last outcome
	for ctx.Err() == nil {
		// A watch follows a directory's inode, not its name, and a symbolic link
		// (Kubernetes swaps one) may now lead elsewhere: each turn sets new ones.
		// They are set before the file is read, so that no change falls between.
		w, armed := f.watch()
		now := f.load(last.keys)
		if now.err == nil {
			now.err = armed
		}
		if f.Report != nil && !now.same(last) {
			f.Report(len(now.keys), now.err)
		}
		last = now
		f.wait(ctx, w, armed == nil)
		if w != nil {
			w.Close()
		}
	}
}

// outcome is what one turn came to. The keys are those that the ring has of the
// file, also when this turn failed.
type outcome struct {
	keys []Key
	err  error
}

func (o outcome) same(p outcome) bool {
	if (o.err == nil) != (p.err == nil) || o.err != nil && o.err.Error() != p.err.Error() {
		return false
	}
	return slices.Equal(o.keys, p.keys)
}

func (f *KeyFile) load(old []Key) outcome {
	keys, err := LoadKeyFile(f.Path)
	if err != nil {
		return outcome{old, err}
	}
	if slices.Equal(keys, old) {
		return outcome{old, nil}
	}
	if err := f.Ring.Replace(keys...); err != nil {
		return outcome{old, fmt.Errorf("use request-state keys of %s: %w", f.Path, err)}
	}
	return outcome{keys, nil}
}

// watch looks at the directory that names the file, where it is replaced, and
// at the one that holds it when links lead elsewhere, where it is written. What
// could be watched is, even when it returns an error; the watcher may be nil.
func (f *KeyFile) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch request-state keys: %w", err)
	}
	dir := filepath.Dir(f.Path)
	err = w.Add(dir)
	if target, linkErr := filepath.EvalSymlinks(f.Path); linkErr == nil {
		if holds := filepath.Dir(target); holds != dir {
			err = errors.Join(err, w.Add(holds))
		}
	}
	if err != nil {
		return w, fmt.Errorf("watch request-state keys in %s: %w", dir, err)
	}
	return w, nil
}

// wait returns when the file may have changed and the directory has settled,
// when it is time to look anyway, or when ctx ends.
func (f *KeyFile) wait(ctx context.Context, w *fsnotify.Watcher, armed bool) {
	settle, poll := f.Settle, f.Poll
	if settle <= 0 {
		settle = 100 * time.Millisecond
	}
	if poll <= 0 {
		poll = time.Minute
	}
	if !armed {
		poll = min(poll, rearm)
	}
	look := time.NewTimer(poll)
	defer look.Stop()
	quiet := time.NewTimer(poll)
	defer quiet.Stop()
	stirred := false
	stir := func() {
		quiet.Reset(settle)
		if !stirred {
			stirred = true
			look.Reset(min(poll, 10*settle))
		}
	}

	var events <-chan fsnotify.Event
	var troubles <-chan error
	if w != nil {
		events, troubles = w.Events, w.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			return
		case <-quiet.C:
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			stir()
		case _, ok := <-troubles: // events were lost: look
			if !ok {
				troubles = nil
			}
			stir()
		}
	}
}
