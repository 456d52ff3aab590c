package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

var (
	otlpProtocol = wordKind(otlp.ProtocolGRPC, otlp.ProtocolHTTP)

	certificateFile = textKind("PATH", "a path", plain, accept(func(text string) bool { return strings.IndexByte(text, 0) < 0 }))

	// milliseconds is a timeout; 0 = none.
	milliseconds = ignoring(millisecondsFrom(0))

	exportInterval = ignoring(millisecondsFrom(1))

	sampler = func() *kind[string] {
		k := wordKind(samplerOn, samplerOff, samplerRatio, parentBased+samplerOn, parentBased+samplerOff, parentBased+samplerRatio)
		k.hint = "SAMPLER"
		return ignoring(k)
	}()

	// samplerArg is checked by checkSampler.
	samplerArg = textKind("TEXT", "a number from 0 to 1", plain, accept(anyText))

	propagatorNames = &kind[[]string]{form{"PROPAGATORS", "tracecontext, baggage, b3, b3multi or none, separated by commas", plain},
		func(text string) (names []string, err error) {
			var ignored []error
			for name := range strings.SplitSeq(text, ",") {
				name = strings.TrimSpace(name)
				if _, ok := propagators[name]; !ok {
					ignored = append(ignored, fmt.Errorf("%s is ignored: want tracecontext, baggage, b3, b3multi or none", quoteShort(name)))
				} else if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			if ignored != nil {
				return names, ignoredError{errors.Join(ignored...)}
			}
			return names, nil
		},
		func(names []string) string { return strings.Join(names, ",") }}

	// otlpHeaders never prints a value, because values are usually credentials.
	otlpHeaders = &kind[[]otlp.Header]{
		form{"HEADERS", "name=value pairs, percent-encoded and separated by commas", func(text string) (string, bool) { return text, true }},
		parseHeaders,
		func(headers []otlp.Header) string {
			pairs := make([]string, len(headers))
			for i, h := range headers {
				pairs[i] = h.Name + "=" + masked
			}
			return strings.Join(pairs, ",")
		}}
)

// resourceAttributes has the format of OTEL_RESOURCE_ATTRIBUTES
// (OpenTelemetry's Resource SDK).
var resourceAttributes = &kind[[]otlp.KeyValue]{
	form{"ATTRIBUTES", "key=value pairs, their values percent-encoded, separated by commas", plain},
	parseAttributes,
	func(attributes []otlp.KeyValue) string {
		pairs := make([]string, len(attributes))
		for i, a := range attributes {
			pairs[i] = a.Key + "=" + url.PathEscape(a.Value)
		}
		return strings.Join(pairs, ",")
	}}

// parseAttributes ignores pairs without a key or an equals sign. It keeps a value with
// invalid percent-encoding unchanged.
func parseAttributes(text string) (attributes []otlp.KeyValue, err error) {
	var ignored []error
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found || key == "" {
			ignored = append(ignored, fmt.Errorf("%s is ignored: want key=value", quoteShort(pair)))
			continue
		}
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		} else {
			ignored = append(ignored, fmt.Errorf("%s is used unchanged: want a percent-encoded value", quoteShort(pair)))
		}
		attributes = append(attributes, otlp.KeyValue{Key: key, Value: value})
	}
	if ignored != nil {
		return attributes, ignoredError{errors.Join(ignored...)}
	}
	return attributes, nil
}

// ignoring returns k with warnings instead of errors: an invalid value counts as unset,
// as in queue-proxy.
func ignoring[T any](k *kind[T]) *kind[T] {
	return &kind[T]{k.form, func(text string) (v T, err error) {
		if v, err = k.parse(text); err != nil {
			return v, ignoredError{fmt.Errorf("%s is ignored: want %s", quoteShort(text), k.wants)}
		}
		return v, nil
	}, k.format}
}

// millisecondsFrom returns a kind for whole milliseconds. The parameter least is the
// minimum. 0 means unlimited, so it becomes longestDuration. Durations above
// longestDuration are reduced to it.
func millisecondsFrom(least int64) *kind[time.Duration] {
	return &kind[time.Duration]{form{"MS", fmt.Sprintf("whole milliseconds, %d or more", least), plain},
		simple(func(text string) (time.Duration, bool) {
			n, ok := parseWhole(text)
			if n == 0 || n > longestDuration.Milliseconds() {
				return longestDuration, ok && n >= least
			}
			return time.Duration(n) * time.Millisecond, ok
		}),
		func(d time.Duration) string {
			switch d {
			case 0:
				return ""
			case longestDuration:
				return "0"
			}
			return strconv.FormatInt(d.Milliseconds(), 10)
		}}
}

// ignoredError is a warning about an invalid part of a value. The part is ignored, or
// used unchanged.
type ignoredError struct{ error }

// parseHeaders keeps the last of several fields with the same name. It ignores malformed
// pairs. Its messages contain no values, which may be secret.
func parseHeaders(text string) (headers []otlp.Header, err error) {
	var ignored []error
	for i, pair := range strings.Split(text, ",") {
		name, encoded, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(encoded)
		value = strings.TrimSpace(value)
		if !found || err != nil || !isToken(name) || !isFieldValue(value) {
			ignored = append(ignored, fmt.Errorf("pair %d is ignored: want name=value, percent-encoded", i+1))
			continue
		}
		headers = slices.DeleteFunc(headers, func(h otlp.Header) bool { return strings.EqualFold(h.Name, name) })
		headers = append(headers, otlp.Header{Name: name, Value: value})
	}
	if ignored != nil {
		return headers, ignoredError{errors.Join(ignored...)}
	}
	return headers, nil
}

// isToken reports whether name is a valid field name (RFC 9110 section 5.6.2).
func isToken(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"+lowerAlphanumeric+"!#$%&'*+-.^_`|~") == ""
}

// isFieldValue reports whether text has no control characters other than tabs (RFC 9110
// section 5.5).
func isFieldValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
