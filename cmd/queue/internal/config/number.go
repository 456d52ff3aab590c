package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var (
	port      = wholeNumber("PORT", 1, 65535, "a port number from 1 to 65535")
	portOrOff = wholeNumber("PORT", 0, 65535, "a port number from 1 to 65535, or 0 for off")
)

// AutoPort is the value of UserPort for USER_PORT=auto.
const AutoPort = 0

// PreferredUserPort is the port that the gate gives the application in the variable
// PORT if USER_PORT is auto. If this port is taken, the gate gives it another one.
const PreferredUserPort = 8080

// portOrAuto is the port of the container.
var portOrAuto = &kind[int]{form{"PORT|auto", port.wants + ", or auto", plain},
	func(text string) (int, error) {
		if strings.EqualFold(text, "auto") {
			return AutoPort, nil
		}
		return port.parse(text)
	},
	func(n int) string {
		if n == AutoPort {
			return "auto"
		}
		return strconv.Itoa(n)
	}}

// sidePortsOff is the value of SidePorts for SIDE_PORTS=off.
const sidePortsOff = -1

// sidePortBlock parses SIDE_PORTS: off, or the first of consecutive ports, one for each
// of sidePorts. The value 0 means that SIDE_PORTS is not set.
var sidePortBlock = func() *kind[int] {
	most := 65536 - len(sidePorts)
	return &kind[int]{form{"PORT|off", fmt.Sprintf("off, or a port number from 1 to %d", most), plain},
		simple(func(text string) (int, bool) {
			if strings.EqualFold(text, "off") || text == "0" {
				return sidePortsOff, true
			}
			n, ok := parseWhole(text)
			return int(n), ok && n <= int64(most)
		}),
		func(n int) string {
			switch n {
			case 0:
				return ""
			case sidePortsOff:
				return "off"
			}
			return strconv.Itoa(n)
		}}
}()

// count returns a kind for a whole number. The minimum is 0, and the parameter most is
// the maximum.
func count(most int) *kind[int] {
	return wholeNumber("N", 0, most, fmt.Sprintf("a whole number from 0 to %d", most))
}

func wholeNumber(hint string, least, most int, wants string) *kind[int] {
	return &kind[int]{form{hint, wants, plain},
		simple(func(text string) (int, bool) {
			n, ok := parseWhole(text)
			return int(n), ok && n >= int64(least) && n <= int64(most)
		}),
		strconv.Itoa}
}

// sizeUnits are Kubernetes' powers of 1024, the largest first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}, {"", 1}}

// size returns a kind for a number of bytes. The parameter least is the minimum.
func size(least int64) *kind[int64] {
	return &kind[int64]{form{"SIZE", "a size of " + formatSize(least) + " or more such as 16Mi, 64Ki or plain bytes", plain},
		simple(func(text string) (int64, bool) {
			n, ok := parseSize(text)
			return n, ok && n >= least
		}),
		formatSize}
}

func parseSize(text string) (int64, bool) {
	for _, unit := range sizeUnits {
		if digits, ok := strings.CutSuffix(text, unit.suffix); ok {
			n, ok := parseWhole(digits)
			return n * unit.bytes, ok && n <= math.MaxInt64/unit.bytes
		}
	}
	return 0, false
}

func formatSize(n int64) string {
	for _, unit := range sizeUnits {
		if n%unit.bytes == 0 && n > 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

// rate is a kind for a number from 0 to 1. The number may have an exponent, such as
// 1e-3.
var rate = &kind[float64]{form{"RATE", "a number from 0 to 1", plain},
	simple(func(text string) (float64, bool) {
		rate, err := strconv.ParseFloat(text, 64)
		odd := text[0] < '0' || text[0] > '9' || strings.Trim(text, "0123456789.eE+-") != ""
		return rate, err == nil && !odd && rate >= 0 && rate <= 1
	}),
	func(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) }}

// longestDuration is the longest duration in a Config. Longer durations are reduced, so
// that adding one to a time does not overflow.
const longestDuration = 100 * 365 * 24 * time.Hour

// wholeSeconds returns a kind for Knative's timeouts, with a minimum in seconds.
func wholeSeconds(least int64) *kind[time.Duration] {
	return durationKind("SECONDS", "whole seconds, "+strconv.FormatInt(least, 10)+" or more", formatSeconds,
		func(text string) (time.Duration, bool) {
			n, ok := parseWhole(text)
			return time.Duration(min(n, int64(longestDuration/time.Second))) * time.Second, ok && n >= least
		})
}

var (
	// seconds is for the gate's settings named ..._SECONDS.
	seconds = durationKind("SECONDS", "seconds, 0 or more, such as 30 or 2.5", formatSeconds, parseSeconds)
	// duration is a Go duration or plain seconds.
	duration = durationKind("DURATION", "a duration such as 1.5s, 300ms or 2m, or plain seconds, 0 or more",
		time.Duration.String, parseDuration)
	positiveDuration = durationKind("DURATION", "a duration above 0 such as 1.5s, 300ms or 2m, or plain seconds",
		time.Duration.String, func(text string) (time.Duration, bool) {
			d, ok := parseDuration(text)
			return d, ok && d > 0
		})
	pollPeriod = durationKind("DURATION", "a duration from 10ms to 10s", time.Duration.String,
		func(text string) (time.Duration, bool) {
			d, ok := parseDuration(text)
			return d, ok && d >= 10*time.Millisecond && d <= 10*time.Second
		})
	// idleTime has a minimum of 10 ms, so that the gate does not suspend the
	// application too often.
	idleTime = durationKind("DURATION", "a duration of 10ms or more such as 30s or 5m, or plain seconds, or 0 for off",
		time.Duration.String, func(text string) (time.Duration, bool) {
			d, ok := parseDuration(text)
			return d, ok && (d == 0 || d >= 10*time.Millisecond)
		})
	// waitTime has a minimum of 100 ms, so that a waiting client does not get messages
	// too often.
	waitTime = durationKind("DURATION", "a duration of 100ms or more such as 15s or 300ms, or plain seconds, or 0 for off",
		time.Duration.String, func(text string) (time.Duration, bool) {
			d, ok := parseDuration(text)
			return d, ok && (d == 0 || d >= 100*time.Millisecond)
		})
	// nanoseconds is the JSON format of durations in Go programs.
	nanoseconds = durationKind("", "whole nanoseconds, 0 or more", time.Duration.String,
		func(text string) (time.Duration, bool) {
			n, ok := parseWhole(text)
			return min(time.Duration(n), longestDuration), ok
		})
)

func durationKind(hint, wants string, format func(time.Duration) string, parse func(string) (time.Duration, bool)) *kind[time.Duration] {
	return &kind[time.Duration]{form{hint, wants, plain}, simple(parse), format}
}

// parseWhole parses decimal digits without a leading zero. It saturates at
// math.MaxInt64.
func parseWhole(text string) (int64, bool) {
	if text == "" || len(text) > 1 && text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = math.MaxInt64 // overflow
	}
	return n, true
}

// parseSeconds parses decimal seconds, limited to longestDuration and truncated to
// nanoseconds. Values above 0 stay above 0, because 0 often means off.
func parseSeconds(text string) (time.Duration, bool) {
	whole, fraction, dotted := strings.Cut(text, ".")
	seconds, ok := parseWhole(whole)
	if !ok || dotted && (fraction == "" || strings.Trim(fraction, "0123456789") != "") {
		return 0, false
	}
	if seconds >= int64(longestDuration/time.Second) {
		return longestDuration, true
	}
	d := time.Duration(seconds) * time.Second
	unit := time.Second / 10
	for i := 0; i < len(fraction) && unit > 0; i++ {
		d += time.Duration(fraction[i]-'0') * unit
		unit /= 10
	}
	return keepAboveZero(d, text), true
}

// parseDuration parses plain seconds or a Go duration without a sign. A duration that
// overflows time.Duration is an error.
func parseDuration(text string) (time.Duration, bool) {
	if d, ok := parseSeconds(text); ok {
		return d, true
	}
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, false
	}
	return keepAboveZero(min(d, longestDuration), text), true
}

func keepAboveZero(d time.Duration, text string) time.Duration {
	if d == 0 && strings.ContainsAny(text, "123456789") {
		return time.Nanosecond
	}
	return d
}

func formatSeconds(d time.Duration) string {
	text := strconv.FormatInt(int64(d/time.Second), 10)
	if rest := d % time.Second; rest != 0 {
		fraction := strconv.FormatInt(int64(time.Second+rest), 10)[1:]
		text += "." + strings.TrimRight(fraction, "0")
	}
	return text
}
