package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func lines(keys ...Key) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintln(&b, k.Hex())
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadKeyFile(t *testing.T) {
	a, b := NewKey(), NewKey()
	path := filepath.Join(t.TempDir(), "keys")
	for name, text := range map[string]string{
		"plain":        lines(a, b),
		"no last end":  a.Hex() + "\n" + b.Hex(),
		"comments":     "# seals\n\n  " + a.Hex() + "  # since May\n\t\n#" + NewKey().Hex() + "\n" + b.Hex() + "\n# end",
		"line ends":    a.Hex() + "\r\n" + b.Hex() + "\r\n",
		"longest file": lines(a, b) + "#" + strings.Repeat("-", maxKeyFile-len(lines(a, b))-1),
	} {
		write(t, path, text)
		if keys, err := LoadKeyFile(path); err != nil || !slices.Equal(keys, []Key{a, b}) {
			t.Errorf("%s: got %v, %v; want %v", name, keys, err, []Key{a, b})
		}
	}
	for name, c := range map[string]struct{ text, at string }{
		"empty":         {"", path + ":"},
		"comments only": {"# " + a.Hex() + "\n\n", path + ":"},
		"short line":    {lines(a) + "\n" + b.Hex()[:63] + "\n", path + ":3:"},
		"not hex":       {lines(a) + "x" + b.Hex()[:63] + "\n", path + ":2:"},
		"two on a line": {a.Hex() + " " + b.Hex() + "\n", path + ":1:"},
		"zero":          {lines(a) + strings.Repeat("0", 64), path + ":2:"},
		"too long":      {lines(a) + strings.Repeat("#\n", maxKeyFile/2), path + ":"},
	} {
		write(t, path, c.text)
		_, err := LoadKeyFile(path)
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.at) {
			t.Errorf("%s: got %v, want ErrKey that names %s", name, err, c.at)
			continue
		}
		for _, k := range []Key{a, b} {
			if strings.Contains(err.Error(), k.Hex()[:32]) {
				t.Errorf("%s: the error quotes a key", name)
			}
		}
	}
	if _, err := LoadKeyFile(path + ".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want not exist", err)
	}
	if _, err := LoadKeyFile(filepath.Dir(path)); err == nil {
		t.Error("a directory was read")
	}
}

// story is one KeyFile at work and what it reported.
type story struct {
	t       *testing.T
	path    string
	ring    *Ring
	reports chan report
}

type report struct {
	keys int
	err  error
}

// follow starts a KeyFile on path and waits until it watches.
func follow(t *testing.T, path string) *story {
	t.Helper()
	s := &story{t: t, path: path, ring: newRing(t, NewKey()), reports: make(chan report, 64)}
	f := &KeyFile{
		Path:   path,
		Ring:   s.ring,
		Report: func(keys int, err error) { s.reports <- report{keys, err} },
		Settle: 20 * time.Millisecond,
		Poll:   time.Hour, // what is seen was seen by an event
	}
	s.run(f)
	return s
}

func (s *story) run(f *KeyFile) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// until takes reports until one fits; the last one is in the failure's text.
func (s *story) until(what string, fits func(report) bool) {
	s.t.Helper()
	late := time.After(20 * time.Second)
	var last report
	for {
		select {
		case last = <-s.reports:
			if fits(last) {
				return
			}
		case <-late:
			s.t.Fatalf("waiting for %s; last report: %d keys, %v", what, last.keys, last.err)
		}
	}
}

// seals waits until the ring's first key is key and all open.
func (s *story) seals(keys ...Key) {
	s.t.Helper()
	s.until(fmt.Sprint("keys ", keys), func(r report) bool {
		return r.err == nil && r.keys == len(keys) && s.sealedBy(keys[0])
	})
	for _, k := range keys {
		if _, err := s.ring.Open(newRing(s.t, k).Seal(nil, sample()), limit); err != nil {
			s.t.Errorf("%v does not open: %v", k, err)
		}
	}
}

func (s *story) sealedBy(key Key) bool {
	_, err := newRing(s.t, key).Open(s.ring.Seal(nil, sample()), limit)
	return err == nil
}

// refuses waits for an error that matches want; the keys stay.
func (s *story) refuses(want error, keeps Key) {
	s.t.Helper()
	s.until(want.Error(), func(r report) bool { return errors.Is(r.err, want) })
	if !s.sealedBy(keeps) {
		s.t.Error("the ring lost its key")
	}
}

func TestKeyFileWritten(t *testing.T) {
	a, b := NewKey(), NewKey()
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, lines(a))
	s := follow(t, path)
	s.seals(a)
	write(t, path, lines(a, b)) // truncated and written
	s.seals(a, b)
	write(t, path, lines(b, a))
	s.seals(b, a)
	write(t, path, "")
	s.refuses(ErrKey, b)
	write(t, path, lines(b)+"no key\n")
	s.refuses(ErrKey, b)
	write(t, path, lines(b, a)) // as before the mistake: said all the same
	s.seals(b, a)
	twin, twin2 := sameID(t)
	write(t, path, lines(twin, twin2))
	s.refuses(ErrKey, b)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.refuses(fs.ErrNotExist, b)
	write(t, path, lines(a))
	s.seals(a)
}

// Editors write a new file and rename it over the old one.
func TestKeyFileRenamed(t *testing.T) {
	a, b, c := NewKey(), NewKey(), NewKey()
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, lines(a))
	s := follow(t, path)
	s.seals(a)
	for _, k := range []Key{b, c} { // twice: the watch outlives the first inode
		write(t, path+"~", lines(k, a))
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
		s.seals(k, a)
	}
}

// Kubernetes: keys -> ..data/keys, ..data -> ..v1; an update makes ..v2, renames
// a new link over ..data and removes ..v1.
func TestKeyFileConfigMap(t *testing.T) {
	dir := t.TempDir()
	keys := []Key{NewKey(), NewKey(), NewKey()}
	publish := func(v int) {
		t.Helper()
		name := fmt.Sprintf("..v%d", v)
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "keys"), lines(keys[v]))
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if v > 0 {
			if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", v-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(0)
	if err := os.Symlink(filepath.Join("..data", "keys"), filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	s := follow(t, filepath.Join(dir, "keys"))
	s.seals(keys[0])
	publish(1)
	s.seals(keys[1])
	publish(2)
	s.seals(keys[2])
}

// A link into another directory: what it points to is watched too, and what it
// points to next.
func TestKeyFileLinkedElsewhere(t *testing.T) {
	a, b, c := NewKey(), NewKey(), NewKey()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, d := range []string{one, two, filepath.Join(dir, "etc")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "etc", "keys")
	write(t, filepath.Join(one, "keys"), lines(a))
	if err := os.Symlink(filepath.Join(one, "keys"), link); err != nil {
		t.Fatal(err)
	}
	s := follow(t, link)
	s.seals(a)
	write(t, filepath.Join(one, "keys"), lines(b))
	s.seals(b)
	write(t, filepath.Join(two, "keys"), lines(a))
	if err := os.Symlink(filepath.Join(two, "keys"), link+"~"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"~", link); err != nil {
		t.Fatal(err)
	}
	s.seals(a)
	write(t, filepath.Join(two, "keys"), lines(c))
	s.seals(c)
}

// A directory that is replaced takes its watch with it.
func TestKeyFileDirectoryReplaced(t *testing.T) {
	a, b, c := NewKey(), NewKey(), NewKey()
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "keys")
	mkdir := func(k Key) {
		t.Helper()
		if err := os.Mkdir(dir+"~", 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir+"~", "keys"), lines(k))
		if err := os.Rename(dir+"~", dir); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(a)
	s := &story{t: t, path: path, ring: newRing(t, NewKey()), reports: make(chan report, 64)}
	s.run(&KeyFile{
		Path:   path,
		Ring:   s.ring,
		Report: func(keys int, err error) { s.reports <- report{keys, err} },
		Settle: 20 * time.Millisecond, // and the default for Poll: what makes it come back is the broken watch
	})
	s.seals(a)

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.refuses(fs.ErrNotExist, a)
	mkdir(b)
	s.seals(b)

	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	mkdir(c)
	s.seals(c)
	write(t, path, lines(a)) // the new directory is watched, not the old
	s.seals(a)
}

// Without a single event the file is still read now and then: a link further up
// is swapped, which no watch on the directory sees.
func TestKeyFilePolled(t *testing.T) {
	a, b := NewKey(), NewKey()
	dir := t.TempDir()
	for name, k := range map[string]Key{"v1": a, "v2": b} {
		if err := os.MkdirAll(filepath.Join(dir, name, "etc"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "etc", "keys"), lines(k))
	}
	current := filepath.Join(dir, "current")
	if err := os.Symlink("v1", current); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(current, "etc", "keys")
	s := &story{t: t, path: path, ring: newRing(t, NewKey()), reports: make(chan report, 64)}
	s.run(&KeyFile{
		Path:   path,
		Ring:   s.ring,
		Report: func(keys int, err error) { s.reports <- report{keys, err} },
		Poll:   20 * time.Millisecond,
	})
	s.seals(a)
	if err := os.Symlink("v2", current+"~"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(current+"~", current); err != nil {
		t.Fatal(err)
	}
	s.seals(b)
}

// Changes that never stop do not keep a new key out.
func TestKeyFileBusyDirectory(t *testing.T) {
	a, b := NewKey(), NewKey()
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, lines(a))
	s := follow(t, path)
	s.seals(a)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				os.WriteFile(path+".other", []byte("x"), 0o600)
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	write(t, path, lines(b))
	s.seals(b)
}
