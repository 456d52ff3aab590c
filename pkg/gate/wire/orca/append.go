package orca

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
)

// AppendField appends the report as a header field line with name and CRLF.
func (r *Report) AppendField(dst []byte, f Format) []byte {
	switch f {
	case Text:
		dst = r.appendText(append(dst, TextHeader+": TEXT "...))
	case JSON:
		dst = r.appendJSON(append(dst, TextHeader+": JSON "...))
	case Binary:
		// Envoy requires padding; gRPC does not.
		dst = base64.StdEncoding.AppendEncode(append(dst, BinaryHeader+": "...), r.AppendProto(nil))
	}
	return append(dst, "\r\n"...)
}

// appendText appends the report without request costs, because Envoy rejects them in
// TEXT.
func (r *Report) appendText(dst []byte) []byte {
	separator := ""
	write := func(prefix, name string, v float64) {
		dst = append(append(append(append(dst, separator...), prefix...), name...), '=')
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
		separator = ","
	}
	for _, s := range scalars {
		if v := *s.get(r); v != 0 {
			write("", s.name, v)
		}
	}
	for _, m := range r.Utilization {
		if plain(m.Name) {
			write("utilization.", m.Name, m.Value)
		}
	}
	for _, m := range r.Named {
		if plain(m.Name) {
			write("named_metrics.", m.Name, m.Value)
		}
	}
	return dst
}

func (r *Report) appendJSON(dst []byte) []byte {
	separator := byte('{')
	key := func(name string) {
		dst = append(append(append(dst, separator, '"'), name...), `":`...)
		separator = ','
	}
	for _, s := range scalars {
		if v := *s.get(r); v != 0 {
			key(s.name)
			dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
		}
	}
	for _, m := range metricMaps {
		all := *m.get(r)
		if len(all) == 0 {
			continue
		}
		key(m.name)
		separator = '{'
		for _, metric := range all {
			if plain(metric.Name) {
				key(metric.Name)
				dst = strconv.AppendFloat(dst, metric.Value, 'g', -1, 64)
			}
		}
		if separator == '{' {
			dst = append(dst, '{')
		}
		dst = append(dst, '}')
		separator = ','
	}
	if separator == '{' {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// plain reports whether the name can be written without escapes, both in TEXT and in a
// JSON string.
func plain(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ', c >= 0x7f, c == ',', c == '=', c == ':', c == '"', c == '\\':
			return false
		}
	}
	return name != ""
}

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// AppendProto appends the report as protobuf.
func (r *Report) AppendProto(dst []byte) []byte {
	for _, s := range scalars {
		if v := *s.get(r); v != 0 {
			dst = appendDouble(dst, s.number, v)
		}
	}
	for _, m := range metricMaps {
		for _, metric := range *m.get(r) {
			dst = append(dst, m.number<<3|wireBytes)
			n := len(metric.Name)
			dst = binary.AppendUvarint(dst, uint64(1+uvarintLen(uint64(n))+n+1+8))
			dst = append(dst, 1<<3|wireBytes)
			dst = append(binary.AppendUvarint(dst, uint64(n)), metric.Name...)
			dst = appendDouble(dst, 2, metric.Value)
		}
	}
	return dst
}

func appendDouble(dst []byte, number uint8, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, number<<3|wireFixed64), math.Float64bits(v))
}

func uvarintLen(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}
