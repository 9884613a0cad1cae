package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	key := NewKey()
	for _, text := range []string{key.Hex(), strings.ToUpper(key.Hex())} {
		got, err := ParseKey(text)
		if err != nil || got != key {
			t.Errorf("ParseKey of a key's own digits: %v, %v", got, err)
		}
	}
	for name, text := range map[string]string{
		"empty":        "",
		"short":        key.Hex()[:63],
		"long":         key.Hex() + "0",
		"space":        " " + key.Hex()[:63],
		"no digit":     "g" + key.Hex()[:63],
		"two-byte":     "é" + key.Hex()[:62],
		"all zero":     strings.Repeat("0", 64),
		"other length": "secret",
	} {
		_, err := ParseKey(text)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: got %v, want ErrKey", name, err)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: error quotes the text: %v", name, err)
		}
	}
	if a, b := NewKey(), NewKey(); a == b {
		t.Error("two new keys are the same")
	}
}

// Whoever prints a key, or something with a key in it, prints the id.
func TestKeyPrintsMasked(t *testing.T) {
	var key Key
	for i := range key {
		key[i] = byte(200 + i)
	}
	type settings struct {
		Keys []Key
		One  *Key
	}
	s := settings{Keys: []Key{key}, One: &key}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "key", key)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "key", key, "all", s)
	texts := map[string]string{"slog": log.String(), "String": key.String(), "Sprint": fmt.Sprint(key, &key, []Key{key})}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "% x", "%64x"} {
		texts[verb] = fmt.Sprintf(verb, key) + fmt.Sprintf(verb, s)
	}
	enc, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	texts["json"] = string(enc)
	for how, text := range texts {
		if !strings.Contains(text, key.ID()) {
			t.Errorf("%s does not give the id: %s", how, text)
		}
		flat := strings.NewReplacer(" ", "", ",", "", "0x", "").Replace(strings.ToLower(text))
		for i := 0; i+8 <= 64; i += 2 { // any four bytes in a row
			if strings.Contains(flat, key.Hex()[i:i+8]) {
				t.Fatalf("%s prints a part of the key", how)
			}
		}
		if strings.Contains(flat, fmt.Sprintf("%d%d%d%d", key[0], key[1], key[2], key[3])) {
			t.Errorf("%s prints the key's bytes", how)
		}
	}
	if NewKey().ID() == key.ID() {
		t.Error("two keys have the same id")
	}
	if strings.Contains(key.Hex(), key.ID()) {
		t.Error("the id is a part of the key")
	}
}
