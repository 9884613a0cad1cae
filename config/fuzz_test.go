package config

import (
	"reflect"
	"testing"
)

// fromText loads a file's text as Load does, without the file.
func fromText(text []byte) (*Config, error) {
	l := newLoader()
	if err := l.load(newLayer("fuzz"), asFile(text), strictYAML{}); err != nil {
		return nil, err
	}
	return l.done()
}

// asFile is a koanf provider of the text itself.
type asFile []byte

func (f asFile) ReadBytes() ([]byte, error)  { return f, nil }
func (asFile) Read() (map[string]any, error) { panic("the text needs its parser") }

func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		full, "", "# nothing", "---", "--- ~", "calls:", "a: b\n---\nc: d", "listen: a:1\nlisten: b:2", "calls: &a {max: *a}",
		"upstreams: [&u {url: 'http://a'}, {<<: *u, name: b, path: /b}]", "? {a: b}\n: c", "1: 2", "~: a", "!!binary aGk=: b",
		"state: {key_file: !!binary aGk=}", "log: !!set {a, b}", "[]", "a.b: c", "http: {max_body: 4MiB, read_timeout: 5}",
		"state: {key_file: \"\\u2028\\ufeff~ null\"}", "state: {key_file: '<<'}", "state: {key_file: ' a: b # c'}",
		"listen: *a", "\xff", "a: [", "%YAML 1.1\n---\na: b", "upstreams: [{url: 'http://a', headers: {'~': ' ', null: x, 1: }}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := fromText(text)
		if err != nil {
			return
		}
		printed, err := c.yaml(func(_ *setting, text string) string { return text })
		if err != nil {
			t.Fatalf("print %+v: %v", c, err)
		}
		again, err := fromText(printed)
		if err != nil {
			t.Fatalf("load the printed settings: %v\n%s", err, printed)
		}
		if !reflect.DeepEqual(again, c) {
			t.Fatalf("printed:\n%s\ngot  %+v\nwant %+v", printed, again, c)
		}
		if _, err := c.YAML(); err != nil {
			t.Fatalf("print with masks: %v", err)
		}
	})
}
