package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Concurrency is what CONTAINER_CONCURRENCY says.
type Concurrency struct {
	Limit int              // 0 = unlimited
	Auto  *gate.LimitRange // nil = Limit is fixed
}

// concurrency is a whole number, or auto with a range.
var concurrency = &kind[Concurrency]{
	form{"N", fmt.Sprintf("a whole number from 0 to %d, auto, or auto:MIN-MAX", gate.MaxLimit), plain},
	func(text string) (c Concurrency, err error) {
		limits, auto := strings.CutPrefix(text, "auto")
		switch {
		case auto && limits == "":
			c.Auto = &gate.LimitRange{Min: gate.DefaultLimitRange.Min, Max: gate.DefaultLimitRange.Max}
		case auto && limits[0] == ':':
			r, err := gate.ParseLimitRange(limits[1:])
			if err != nil {
				return c, err
			}
			c.Auto = &r
		default:
			n, ok := parseWhole(text)
			if !ok || n > gate.MaxLimit {
				return c, errNotAccepted
			}
			c.Limit = int(n)
		}
		return c, nil
	},
	func(c Concurrency) string {
		switch {
		case c.Auto == nil:
			return strconv.Itoa(c.Limit)
		case *c.Auto == gate.DefaultLimitRange:
			return "auto"
		}
		return fmt.Sprintf("auto:%d-%d", c.Auto.Min, c.Auto.Max)
	}}

var (
	// selector is a part of a request.
	selector = selectorKind("PART", "header:NAME, peer, or path:N for the Nth segment of the path", "")
	// headerField is a selector of a header field.
	headerField = selectorKind("FIELD", "header:NAME", "header:")
)

// selectorKind is a selector whose text begins with prefix.
func selectorKind(hint, wants, prefix string) *kind[gate.Selector] {
	return &kind[gate.Selector]{
		form{hint, wants, plain},
		simple(func(text string) (gate.Selector, bool) {
			s, err := gate.ParseSelector(text)
			return s, err == nil && strings.HasPrefix(text, prefix)
		}),
		gate.Selector.String}
}
