package gate

import (
	"bytes"
	"errors"
	"hash/maphash"
	"strconv"
	"strings"
)

// Selector picks a part of a request: a header field, the peer's address or a
// segment of the path. The zero Selector picks nothing.
type Selector struct {
	kind    selectorKind
	name    string // of the header field
	segment int    // of the path, from 1
}

type selectorKind uint8

const (
	selectNothing selectorKind = iota
	selectHeader
	selectPeer
	selectSegment
)

// ParseSelector reads header:NAME, peer or path:N, the Nth segment from 1.
func ParseSelector(s string) (Selector, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case kind == "header" && IsName(rest):
		return Selector{kind: selectHeader, name: rest}, nil
	case s == "peer":
		return Selector{kind: selectPeer}, nil
	case kind == "path":
		if n, err := strconv.Atoi(rest); err == nil && n >= 1 && n <= 100 {
			return Selector{kind: selectSegment, segment: n}, nil
		}
	}
	return Selector{}, errors.New("not header:NAME, peer or path:N")
}

// String is what ParseSelector reads.
func (s Selector) String() string {
	switch s.kind {
	case selectHeader:
		return "header:" + s.name
	case selectPeer:
		return "peer"
	case selectSegment:
		return "path:" + strconv.Itoa(s.segment)
	}
	return ""
}

// Set reports whether s picks anything.
func (s Selector) Set() bool { return s.kind != selectNothing }

// header is the first value of the selected field, nil if there is none.
func (s Selector) header(f Fields) (value []byte) {
	if f == nil {
		return nil
	}
	f.Each(func(name, v []byte) bool {
		if len(name) == len(s.name) && strings.EqualFold(string(name), s.name) {
			value = v
			return false
		}
		return true
	})
	return value
}

var keySeed = maphash.MakeSeed()

// Key is a number for the selected part of x: two requests have the same one if
// theirs is the same.
func (s Selector) Key(x *Exchange) uint64 {
	switch s.kind {
	case selectHeader:
		return maphash.Bytes(keySeed, s.header(x.Fields))
	case selectPeer:
		return maphash.Comparable(keySeed, x.Peer.Addr().Unmap())
	case selectSegment:
		return maphash.Bytes(keySeed, segment(x.Target, s.segment))
	}
	return 0
}

// segment is the nth segment of a request target, empty if there are fewer.
func segment(target []byte, n int) []byte {
	for i := range target {
		switch {
		case target[i] == '?':
			return nil
		case target[i] != '/':
		default:
			if n--; n == 0 {
				return untilAny(target[i+1:], "/?")
			}
		}
	}
	return nil
}

// untilAny is b up to the first of the bytes of stop.
func untilAny(b []byte, stop string) []byte {
	if i := bytes.IndexAny(b, stop); i >= 0 {
		return b[:i]
	}
	return b
}
