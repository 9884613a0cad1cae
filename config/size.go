package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written 4MiB, 512KiB or as a plain integer.
type Size int64

var errSize = errors.New("not a size such as 4MiB, 512KiB or a plain number of bytes")

// The units, the largest first. KB and MB are left out: they mean 1000 to some
// and 1024 to others.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
}

// UnmarshalText reads a size. It accepts no sign, fraction or space.
func (s *Size) UnmarshalText(text []byte) error {
	digits, factor := string(text), int64(1)
	for _, unit := range sizeUnits {
		if rest, ok := strings.CutSuffix(digits, unit.name); ok {
			digits, factor = rest, unit.bytes
			break
		}
	}
	n, ok := parseInteger(digits)
	if !ok || n < 0 || n > math.MaxInt64/factor {
		return errSize
	}
	*s = Size(n * factor)
	return nil
}

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if n := int64(s); n != 0 && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes what UnmarshalText reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseInteger reads a decimal integer as it is usually written: 010 and 1_000
// are octal or grouped to some, so they are refused.
func parseInteger(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
