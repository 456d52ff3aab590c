package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Concurrency is the value of CONTAINER_CONCURRENCY.
type Concurrency struct {
	Limit int                   // 0 = unlimited
	Auto  *admission.LimitRange // nil = Limit is fixed
}

// concurrency is a whole number, or auto with a range.
var concurrency = &kind[Concurrency]{
	form{"N", fmt.Sprintf("a whole number from 0 to %d, auto, or auto:MIN-MAX", admission.MaxLimit), plain},
	func(text string) (c Concurrency, err error) {
		limits, auto := strings.CutPrefix(text, "auto")
		switch {
		case auto && limits == "":
			c.Auto = &admission.LimitRange{Min: admission.DefaultLimitRange.Min, Max: admission.DefaultLimitRange.Max}
		case auto && limits[0] == ':':
			r, err := admission.ParseLimitRange(limits[1:])
			if err != nil {
				return c, err
			}
			c.Auto = &r
		default:
			n, ok := parseWhole(text)
			if !ok || n > admission.MaxLimit {
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
		case *c.Auto == admission.DefaultLimitRange:
			return "auto"
		}
		return fmt.Sprintf("auto:%d-%d", c.Auto.Min, c.Auto.Max)
	}}

var (
	// selector selects a part of a request.
	selector = selectorKind("PART", "header:NAME, peer, or path:N for the Nth segment of the path", "", exchange.ParseSelector)
	// headerField selects a header field.
	headerField = selectorKind("FIELD", "header:NAME", "header:", exchange.ParseSelector)
	// costField selects the cost of a request.
	costField = selectorKind("PART", "length or header:NAME", "", exchange.ParseCostSelector)
	// timeoutField selects a header field with a timeout.
	timeoutField = selectorKind("FIELD", "header:NAME or header:NAME:ms", "header:", exchange.ParseTimeoutSelector)
)

var evictionRule = &kind[exchange.Eviction]{
	form{"RULE", "class>=N,after=DURATION[,rate=NUMBER]", plain},
	exchange.ParseEviction,
	exchange.Eviction.String}

// selectorKind returns a kind for a selector whose text begins with prefix.
func selectorKind(hint, wants, prefix string, parse func(string) (exchange.Selector, error)) *kind[exchange.Selector] {
	return &kind[exchange.Selector]{
		form{hint, wants, plain},
		simple(func(text string) (exchange.Selector, bool) {
			s, err := parse(text)
			return s, err == nil && strings.HasPrefix(text, prefix)
		}),
		exchange.Selector.String}
}
