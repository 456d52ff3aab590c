package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// unit is a unit of measurement. Its size is factor times the base unit. Values can be
// converted only between units with the same base. A unit that is not in the list units
// is its own base, so its values cannot be converted.
type unit struct {
	name   string
	base   string
	factor float64
}

const (
	times   = "s"
	amounts = "B"
)

var units = []unit{
	{"ns", times, 1e-9},
	{"µs", times, 1e-6},
	{"ms", times, 1e-3},
	{"s", times, 1},
	{"B", amounts, 1},
	{"KiB", amounts, 1 << 10},
	{"MiB", amounts, 1 << 20},
	{"GiB", amounts, 1 << 30},
}

// otherSpellings maps other names of units in records to our names.
var otherSpellings = map[string]string{"us": "µs", "bytes": "B", "1/s": "/s"}

func unitOf(name string) unit {
	if other, ok := otherSpellings[name]; ok {
		name = other
	}
	for _, u := range units {
		if u.name == name {
			return u
		}
	}
	return unit{name, name, 1}
}

// factorTo returns the factor that converts values from the unit u to the unit other. It
// returns false if the two units have different bases, such as seconds and bytes.
func (u unit) factorTo(other unit) (float64, bool) {
	return u.factor / other.factor, u.base == other.base
}

// scaled returns the unit in which a value is easy to read. The parameter value is in the
// unit u. The result is the largest unit with the same base in which the value is at
// least 1. If there is no such unit, the result is u.
func (u unit) scaled(value float64) unit {
	best := u
	for _, c := range units {
		if c.base == u.base && math.Abs(value)*u.factor >= c.factor {
			best = c
		}
	}
	if value == 0 {
		return u
	}
	return best
}

// number formats v with three significant digits and thousands separators. It never drops
// a digit before the decimal point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case v == 0:
		return "0"
	case a >= 999.5:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 0.0005:
		return strings.TrimSuffix(fmt.Sprintf("%#.3g", v), ".")
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(digits string) string {
	digits, negative := strings.CutPrefix(digits, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// withUnit formats a value in a suitable unit.
func withUnit(v float64, u unit) string {
	s := u.scaled(v)
	f, _ := u.factorTo(s)
	if s.name == "" {
		return number(v)
	}
	return number(v*f) + " " + s.name
}

// label converts the name of a figure, such as "cpu_per_request", to words.
func label(figure string) string {
	parts := strings.Split(figure, "_")
	for i, w := range parts {
		switch w {
		case "cpu", "rss", "gb", "mb", "pss", "uss":
			parts[i] = strings.ToUpper(w)
		}
	}
	text := strings.Join(parts, " ")
	if c := figure[0]; c >= 'a' && c <= 'z' && !percentileName.MatchString(figure) {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}

// percentileName matches "max" and names such as "p50" and "p99.9_added".
var percentileName = regexp.MustCompile(`^(p[0-9.]+(_|$)|max$)`)
