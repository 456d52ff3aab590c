package config

import (
	"strconv"
	"strings"
	"time"
)

// longestDuration is the longest duration in a Config. Knative's timeouts have no upper bound: longer ones are cut to this.
// It is far enough from the ends of int64 that adding it to a clock in nanoseconds cannot overflow.
const longestDuration = 100 * 365 * 24 * time.Hour

// wholeSecondsValue is one of Knative's timeouts.
type wholeSecondsValue struct {
	field *time.Duration
	least int64
}

func (v wholeSecondsValue) set(text string) error {
	n, ok := parseWhole(text)
	if !ok || n < v.least {
		return errNotAccepted
	}
	*v.field = time.Duration(min(n, int64(longestDuration/time.Second))) * time.Second
	return nil
}
func (v wholeSecondsValue) text() string { return formatSeconds(*v.field) }
func (v wholeSecondsValue) accepts() string {
	return "whole seconds, " + strconv.FormatInt(v.least, 10) + " or more"
}
func (wholeSecondsValue) hint() string { return "SECONDS" }

// secondsValue is a setting of ours with SECONDS in its name: fractions are allowed.
type secondsValue time.Duration

func (v *secondsValue) set(text string) error {
	d, ok := parseSeconds(text)
	if !ok {
		return errNotAccepted
	}
	*v = secondsValue(d)
	return nil
}
func (v *secondsValue) text() string  { return formatSeconds(time.Duration(*v)) }
func (*secondsValue) accepts() string { return "seconds, 0 or more, such as 30 or 2.5" }
func (*secondsValue) hint() string    { return "SECONDS" }

// durationValue is a Go duration or plain seconds.
type durationValue struct {
	field    *time.Duration
	positive bool
}

func (v durationValue) set(text string) error {
	d, ok := parseSeconds(text)
	if !ok {
		d, ok = parseDuration(text)
	}
	if !ok || v.positive && d == 0 {
		return errNotAccepted
	}
	*v.field = d
	return nil
}
func (v durationValue) text() string { return v.field.String() }
func (v durationValue) accepts() string {
	if v.positive {
		return "a duration above 0 such as 1.5s, 300ms or 2m, or plain seconds"
	}
	return "a duration such as 1.5s, 300ms or 2m, or plain seconds, 0 or more"
}
func (durationValue) hint() string { return "DURATION" }

// parseSeconds reads decimal seconds, cut to longestDuration and to nanoseconds. What is above 0 stays above 0, since 0 often
// means off.
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

// parseDuration reads a Go duration without a sign. One too long for time.Duration is refused, not cut.
func parseDuration(text string) (time.Duration, bool) {
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
