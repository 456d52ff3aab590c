package admission

import (
	"fmt"
	"strconv"
	"strings"
)

// LimitRange is the range of the adaptive concurrency limit.
type LimitRange struct{ Min, Max int }

// DefaultLimitRange is the range if none is configured.
var DefaultLimitRange = LimitRange{Min: 1, Max: 1000}

// ParseLimitRange parses a range in the form "MIN-MAX". Both numbers are from 1 to
// MaxLimit.
func ParseLimitRange(s string) (LimitRange, error) {
	low, high, ok := strings.Cut(s, "-")
	least, errLow := strconv.Atoi(low)
	most, errHigh := strconv.Atoi(high)
	if !ok || errLow != nil || errHigh != nil || least < 1 || most < least || most > MaxLimit {
		return LimitRange{}, fmt.Errorf("%q is not MIN-MAX with 1 <= MIN <= MAX <= %d", s, MaxLimit)
	}
	return LimitRange{Min: least, Max: most}, nil
}
