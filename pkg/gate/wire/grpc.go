package wire

import (
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// GRPCTimeout returns the value of grpc-timeout. If there is no valid one, it returns the
// maximum Duration.
func (r *Request) GRPCTimeout() time.Duration {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.Other && field.EqualFold(r.name(f), "grpc-timeout") {
			if d, ok := parseGRPCTimeout(r.value(f)); ok {
				return d
			}
			break
		}
	}
	return math.MaxInt64
}

// parseGRPCTimeout parses one to eight digits and a unit (gRPC over HTTP/2, "Timeout").
// If the value is too large for a Duration, d is the maximum Duration. The result ok is
// false if the value is malformed.
func parseGRPCTimeout(v []byte) (d time.Duration, ok bool) {
	n := len(v) - 1
	if n < 1 || n > 8 {
		return 0, false
	}
	count := int64(0)
	for _, c := range v[:n] {
		if !field.IsDigit(c) {
			return 0, false
		}
		count = count*10 + int64(c-'0')
	}
	unit := time.Duration(0)
	switch v[n] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	if count > math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(count) * unit, true
}
