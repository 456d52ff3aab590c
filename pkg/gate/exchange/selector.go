package exchange

import (
	"bytes"
	"errors"
	"hash/maphash"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Selector selects a part of a request: a header field, the peer's address, a segment of
// the path, or the length of the body. The zero Selector selects nothing.
type Selector struct {
	kind    selectorKind
	name    string // name of the header field
	segment int    // number of the path segment, from 1
	millis  bool   // a plain number in the field is in milliseconds
}

type selectorKind uint8

const (
	selectNothing selectorKind = iota
	selectHeader
	selectPeer
	selectSegment
	selectLength // the length of the body; used only by CostBy
)

// ParseSelector parses "header:NAME", "peer" or "path:N". N is the number of a path
// segment, from 1.
func ParseSelector(s string) (Selector, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case kind == "header" && gate.IsName(rest):
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

// ParseTimeoutSelector parses "header:NAME" or "header:NAME:ms". A plain number in the
// field is in seconds, or in milliseconds with ":ms" or if NAME ends in "-ms".
func ParseTimeoutSelector(text string) (Selector, error) {
	header, millis := strings.CutSuffix(text, ":ms")
	s, err := ParseSelector(header)
	if err != nil || s.kind != selectHeader {
		return Selector{}, errors.New("not header:NAME or header:NAME:ms")
	}
	s.millis = millis
	return s, nil
}

// String returns the text that ParseSelector, ParseTimeoutSelector or ParseCostSelector
// parses.
func (s Selector) String() string {
	switch s.kind {
	case selectHeader:
		if s.millis {
			return "header:" + s.name + ":ms"
		}
		return "header:" + s.name
	case selectPeer:
		return "peer"
	case selectSegment:
		return "path:" + strconv.Itoa(s.segment)
	case selectLength:
		return "length"
	}
	return ""
}

// Set reports whether s selects anything.
func (s Selector) Set() bool { return s.kind != selectNothing }

// header returns the first value of the selected field; nil = absent.
func (s Selector) header(f gate.Fields) (value []byte) {
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

// timeout returns the timeout in the selected field. ok is false if there is no valid
// one.
func (s Selector) timeout(f gate.Fields) (d time.Duration, ok bool) {
	unit := time.Second
	if s.millis || len(s.name) > 3 && strings.EqualFold(s.name[len(s.name)-3:], "-ms") {
		unit = time.Millisecond
	}
	return parseTimeout(s.header(f), unit)
}

var keySeed = maphash.MakeSeed()

// Key returns a hash of the selected part of x. The hash is seeded per process.
func (s Selector) Key(x *Exchange) uint64 {
	switch s.kind {
	case selectHeader:
		return maphash.Bytes(keySeed, s.header(x.Fields))
	case selectPeer:
		return maphash.Comparable(keySeed, network(x.Peer.Addr()))
	case selectSegment:
		return maphash.Bytes(keySeed, segment(x.Target, s.segment))
	}
	return 0
}

// pathHash returns a hash of the path of x without its query.
func pathHash(x *Exchange) uint64 {
	return maphash.Bytes(keySeed, beforeAny(x.Target, "?"))
}

// network returns an IPv4 address itself, and the /64 of an IPv6 address, because a
// client can use every address of its /64 (RFC 8981).
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64)
	return p.Addr()
}

// segment returns the nth segment of a request target; empty = none.
func segment(target []byte, n int) []byte {
	for i := range target {
		switch {
		case target[i] == '?':
			return nil
		case target[i] != '/':
		default:
			if n--; n == 0 {
				return beforeAny(target[i+1:], "/?")
			}
		}
	}
	return nil
}

// beforeAny returns the part of b before the first byte that is in stop.
func beforeAny(b []byte, stop string) []byte {
	if i := bytes.IndexAny(b, stop); i >= 0 {
		return b[:i]
	}
	return b
}
