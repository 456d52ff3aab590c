package orca

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a received report.
const (
	MaxFieldBytes = 8 << 10
	maxMetrics    = 128 // entries in all maps together
)

var errReport = errors.New("not an ORCA load report")

// ParseField reads a report from a header field. The first word of a TextHeader value
// names its format.
func ParseField(name, value []byte) (*Report, error) {
	if len(value) > MaxFieldBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", errReport, MaxFieldBytes)
	}
	if equalFold(name, BinaryHeader) {
		return parseBase64(value)
	}
	format, rest, ok := bytes.Cut(value, []byte{' '})
	if !ok {
		return nil, errReport
	}
	switch ParseFormat(format) {
	case Text:
		return parseText(rest)
	case JSON:
		return parseJSON(rest)
	case Binary:
		return parseBase64(rest)
	}
	return nil, errReport
}

func parseBase64(value []byte) (*Report, error) {
	decoded, err := base64.RawStdEncoding.AppendDecode(nil, bytes.TrimRight(bytes.TrimSpace(value), "="))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReport, err)
	}
	return ParseProto(decoded)
}

// parseText accepts name=value and name:value, as Envoy does.
func parseText(value []byte) (*Report, error) {
	r := &Report{}
	for pair := range bytes.SplitSeq(value, []byte{','}) {
		pair = bytes.TrimSpace(pair)
		if len(pair) == 0 {
			continue
		}
		at := bytes.IndexAny(pair, "=:")
		if at < 0 {
			return nil, errReport
		}
		v, err := strconv.ParseFloat(string(bytes.TrimSpace(pair[at+1:])), 64)
		if err != nil || !r.set(string(bytes.TrimSpace(pair[:at])), v) {
			return nil, errReport
		}
	}
	return r, nil
}

// set stores a value under its name in TEXT. It returns false if the name is unknown,
// invalid or already set, if v is not finite, or if there are too many metrics.
func (r *Report) set(name string, v float64) bool {
	if !finite(v) {
		return false
	}
	for _, s := range scalars {
		if s.name == name {
			was := *s.get(r)
			*s.get(r) = v
			return was == 0
		}
	}
	for _, m := range metricMaps {
		if key, ok := strings.CutPrefix(name, m.name+"."); ok {
			return plain(key) && r.metrics() < maxMetrics && add(m.get(r), Metric{key, v})
		}
	}
	return false
}

func (r *Report) metrics() int { return len(r.RequestCost) + len(r.Utilization) + len(r.Named) }

func parseJSON(value []byte) (*Report, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return nil, fmt.Errorf("%w: %w", errReport, err)
	}
	r := &Report{}
	for name, raw := range object {
		name = snakeCase(name)
		if name == "rps" {
			continue
		}
		var metrics map[string]float64
		switch i := slices.IndexFunc(metricMaps[:], func(m metricMap) bool { return m.name == name }); {
		case i < 0:
			var v float64
			if json.Unmarshal(raw, &v) != nil || !r.set(name, v) {
				return nil, errReport
			}
		case json.Unmarshal(raw, &metrics) != nil:
			return nil, errReport
		default:
			for key, v := range metrics {
				if !r.set(name+"."+key, v) {
					return nil, errReport
				}
			}
		}
	}
	for _, m := range metricMaps { // a map has no order: sort the metrics to get the same result always
		slices.SortFunc(*m.get(r), func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	}
	return r, nil
}

// snakeCase converts a lowerCamelCase name of protobuf's JSON to the name of the protobuf
// field.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c |= 0x20
		}
		b.WriteByte(c)
	}
	return b.String()
}

// ParseProto reads a report from protobuf. Unknown fields are dropped.
func ParseProto(b []byte) (*Report, error) {
	r := &Report{}
	err := fields(b, func(number uint64, v uint64, bytes []byte) error {
		for _, s := range scalars {
			if uint64(s.number) == number && bytes == nil {
				if *s.get(r) = math.Float64frombits(v); !finite(*s.get(r)) {
					return errReport
				}
			}
		}
		for _, m := range metricMaps {
			if uint64(m.number) != number || bytes == nil {
				continue
			}
			metric, err := parseEntry(bytes)
			if err != nil {
				return err
			}
			if r.metrics() >= maxMetrics {
				return errReport
			}
			add(m.get(r), metric)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func parseEntry(b []byte) (m Metric, err error) {
	err = fields(b, func(number uint64, v uint64, bytes []byte) error {
		switch {
		case number == 1 && bytes != nil:
			m.Name = string(bytes)
		case number == 2 && bytes == nil:
			m.Value = math.Float64frombits(v)
		}
		return nil
	})
	if err == nil && (!utf8.ValidString(m.Name) || !finite(m.Value)) {
		err = errReport
	}
	return m, err
}

// fields calls f for each field of a protobuf message. For a numeric field, f gets the
// value as v, and bytes is nil. For a length-delimited field, f gets the content as
// bytes, which is not nil even if the content is empty.
func fields(b []byte, f func(number, v uint64, bytes []byte) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 {
			return errReport
		}
		b = b[n:]
		var v uint64
		var delimited []byte
		switch key & 7 {
		case wireVarint:
			if v, n = binary.Uvarint(b); n <= 0 {
				return errReport
			}
		case wireFixed64:
			if n = 8; len(b) < n {
				return errReport
			}
			v = binary.LittleEndian.Uint64(b)
		case wireFixed32:
			if n = 4; len(b) < n {
				return errReport
			}
			v = uint64(binary.LittleEndian.Uint32(b))
		case wireBytes:
			length, m := binary.Uvarint(b)
			if m <= 0 || length > uint64(len(b)-m) {
				return errReport
			}
			n = m + int(length)
			delimited = append([]byte{}, b[m:n]...)
		default:
			return errReport
		}
		if err := f(key>>3, v, delimited); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// ParseRequest returns the report_interval of an OrcaLoadReportRequest. The result is 0
// if the request has no interval. An interval that is too long for a Duration is
// shortened.
func ParseRequest(b []byte) (interval time.Duration, err error) {
	err = fields(b, func(number, _ uint64, bytes []byte) error {
		if number != 1 || bytes == nil {
			return nil
		}
		var seconds, nanos int64
		err := fields(bytes, func(number, v uint64, bytes []byte) error {
			switch {
			case number == 1 && bytes == nil:
				seconds = int64(v)
			case number == 2 && bytes == nil:
				nanos = int64(int32(v))
			}
			return nil
		})
		const limit = int64(math.MaxInt64/time.Second) - 3 // invalid nanos can add up to 2.2 s
		interval = time.Duration(min(max(seconds, -limit), limit))*time.Second + time.Duration(nanos)
		return err
	})
	return interval, err
}
