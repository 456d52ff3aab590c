package exchange

import (
	"errors"

	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

const (
	// DefaultCost is the cost in units of a request whose length is unknown or whose cost
	// field is not a number.
	DefaultCost = 1024
	// bytesPerUnit is the typical length of a token of text.
	bytesPerUnit = 4
)

// ParseCostSelector parses "length" or "header:NAME".
func ParseCostSelector(text string) (Selector, error) {
	if text == "length" {
		return Selector{kind: selectLength}, nil
	}
	s, err := ParseSelector(text)
	if err != nil || s.kind != selectHeader {
		return Selector{}, errors.New("not length or header:NAME")
	}
	return s, nil
}

// cost returns the cost of x in units: the number in the selected field, or the length of
// the body in tokens. The field is ignored if x comes from an untrusted peer.
func (s Selector) cost(x *Exchange, trusted bool) int64 {
	if s.kind == selectHeader && trusted {
		if v := s.header(x.Fields); v != nil {
			return parseCost(v)
		}
	}
	length, known := x.bodyLength()
	if !known {
		return DefaultCost
	}
	return max(length/bytesPerUnit, 1)
}

// bodyLength returns the length of the request body. known is false if the head does not
// contain it.
func (x *Exchange) bodyLength() (length int64, known bool) {
	if x.down == nil { // x belongs to a Blocking
		return field.ReadLength(Selector{name: "Content-Length"}.header(x.Fields))
	}
	switch req, _ := x.down.Request(); req.Body {
	case wire.NoBody:
		return 0, true
	case wire.BodyLength:
		return req.Length, true
	}
	return 0, false
}

// parseCost parses a decimal number, capped at admission.MaxCost. Any other value yields
// DefaultCost.
func parseCost(value []byte) (n int64) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return DefaultCost
		}
		n = min(n*10+int64(c-'0'), admission.MaxCost)
	}
	if len(value) == 0 {
		return DefaultCost
	}
	return max(n, 1)
}
