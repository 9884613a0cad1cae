package config

import (
	"reflect"
	"strconv"
	"time"
)

// parse reads a value of one word or number as it is written in the file, the
// environment and flags alike.
func (s *setting) parse(v reflect.Value, text string) bool {
	switch s.kind {
	case kindText:
		v.SetString(text)
	case kindSwitch:
		if text != "true" && text != "false" {
			return false
		}
		v.SetBool(text == "true")
	case kindNumber:
		n, ok := parseInteger(text)
		if !ok || v.OverflowInt(n) {
			return false
		}
		v.SetInt(n)
	case kindDuration:
		d, ok := parseDuration(text)
		if !ok {
			return false
		}
		v.SetInt(int64(d))
	case kindSize:
		var size Size
		if size.UnmarshalText([]byte(text)) != nil {
			return false
		}
		v.SetInt(int64(size))
	default:
		return false
	}
	return true
}

// written says how a value of the kind is written.
func (s *setting) written() string {
	switch s.kind {
	case kindNumber:
		return "want a whole number"
	case kindDuration:
		return "want a duration with its unit, such as 30s, 5m or 1h30m"
	case kindSize:
		return "want a size such as 4MiB, 512KiB or a plain number of bytes"
	case kindTexts:
		return "want a list"
	case kindPairs:
		return "want names with their values"
	case kindEnv:
		return "want names with their values, or a list of NAME and NAME=VALUE"
	case kindSection:
		return "want a section"
	case kindSections:
		return "want a list of sections"
	default:
		return "want one value"
	}
}

// parseDuration wants a unit: read_timeout: 5 would be five of something that
// everybody guesses differently.
func parseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if err != nil || text[len(text)-1] < 'a' {
		return 0, false
	}
	return d, true
}

// scalarText writes what parse reads.
func scalarText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return durationText(x)
	case Size:
		return x.String()
	case int:
		return strconv.Itoa(x)
	case bool:
		return strconv.FormatBool(x)
	default:
		return v.String()
	}
}

// durationText leaves out the zeros of time.Duration.String: 10m, not 10m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if d != 0 && d%time.Minute == 0 {
		text = text[:len(text)-len("0s")]
	}
	if d != 0 && d%time.Hour == 0 {
		text = text[:len(text)-len("0m")]
	}
	return text
}
