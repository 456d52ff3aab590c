package wire

import (
	"math"
	"testing"
	"time"
)

func TestAGRPCTimeoutIsOneToEightDigitsAndAUnit(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4m": 4 * time.Millisecond,
		"5u": 5 * time.Microsecond, "6n": 6, "0n": 0, "00000007S": 7 * time.Second,
		"12345678m": 12345678 * time.Millisecond, "99999999H": math.MaxInt64,
		"": -1, "1": -1, "S": -1, "1s": -1, "1h": -1, "123456789n": -1, "+1S": -1, "-1S": -1, "1.5S": -1, "1 S": -1, " 1S": -1, "1SS": -1, "1S\x00": -1,
	} {
		d, ok := parseGRPCTimeout([]byte(v))
		if ok != (want >= 0) || ok && d != want {
			t.Errorf("%q: %v, %v", v, d, ok)
		}
	}
}
