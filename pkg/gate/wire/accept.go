package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// fullWeight is the default weight of a media type, in thousandths (RFC 9110 section
// 12.4.2).
const fullWeight = 1000

// AcceptWeight returns the weight of mediaType in Accept, in thousandths, and the highest
// weight of all other media types. mediaType must be in lower case. Ranges with a
// wildcard do not count. If the list is too long, both results are 0.
func (r *Request) AcceptWeight(mediaType string) (weight, others int) {
	elements := 0
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind != field.Other || !field.EqualFold(r.name(f), "accept") {
			continue
		}
		if elements += countElements(r.value(f)); elements > maxOptions {
			return 0, 0
		}
		eachOption(r.value(f), func(element []byte) bool {
			name, q := mediaRange(element)
			switch {
			case field.EqualFold(name, mediaType):
				weight = max(weight, q)
			case bytes.IndexByte(name, '/') > 0 && bytes.IndexByte(name, '*') < 0:
				others = max(others, q)
			}
			return true
		})
	}
	return weight, others
}

// mediaRange splits an element of Accept into the media range and its weight q, in
// thousandths. A malformed weight is returned as 0.
func mediaRange(element []byte) (name []byte, q int) {
	name, parameters, _ := bytes.Cut(element, []byte{';'})
	q = fullWeight
	for len(parameters) > 0 {
		var p []byte
		p, parameters, _ = bytes.Cut(parameters, []byte{';'})
		if p = bytes.Trim(p, " \t"); field.HasPrefixFold(p, "q=") {
			q = parseWeight(p[len("q="):])
			break
		}
	}
	return bytes.TrimRight(name, " \t"), q
}

// parseWeight returns the value of a qvalue (RFC 9110 section 12.4.2) in thousandths. It
// returns 0 for a malformed qvalue, so that the media type counts as not acceptable.
func parseWeight(v []byte) int {
	if len(v) == 0 || len(v) > len("0.123") || v[0] != '0' && v[0] != '1' || len(v) > 1 && v[1] != '.' {
		return 0
	}
	q, unit := int(v[0]-'0')*fullWeight, fullWeight
	for _, c := range v[min(2, len(v)):] {
		if !field.IsDigit(c) {
			return 0
		}
		unit /= 10
		q += int(c-'0') * unit
	}
	if q > fullWeight {
		return 0
	}
	return q
}

// Navigates reports whether a browser may show the response as a page. It returns true if
// Sec-Fetch-Mode (Fetch Metadata Request Headers) has the value navigate, or if the
// request has no such field. It returns false for any other value.
func (r *Request) Navigates() bool {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.Other && field.EqualFold(r.name(f), "sec-fetch-mode") {
			return field.EqualFold(r.value(f), "navigate")
		}
	}
	return true
}
