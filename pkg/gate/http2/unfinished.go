package http2

import (
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// unfinished is what a link has read of a frame, and of a field block, whose rest
// has not come.
type partialInput struct {
	reader  h2.Reader
	rest    []byte // of a frame
	since   int64  // when the frame or the field block began; 0 = none
	charged int32  // octets of the gate's budget of heads that it takes
	metered bool   // it comes from there
}

// incomplete reports that a frame or a field block has begun.
func (u *partialInput) incomplete() bool { return len(u.rest) > 0 || u.reader.InBlock() }

// charge takes from the budget what is there now.
func (u *partialInput) charge(heads *exchange.Budget) *h2.Error {
	if !u.metered {
		return nil
	}
	n := max(cap(u.rest)+u.reader.Held()-exchange.FreeHeadBytes, 0)
	more := int64(n) - int64(u.charged)
	if more > 0 && !heads.Acquire(more) {
		return errNoMemoryForBlock
	}
	if more < 0 {
		heads.Release(-more)
	}
	u.charged = int32(n)
	return nil
}

var errNoMemoryForBlock = &h2.Error{Code: h2.EnhanceYourCalm, Fault: h2.FaultHeaderBlock, Reason: "no memory left for a field block"}

// drop forgets all of it.
func (u *partialInput) discard(heads *exchange.Budget) {
	u.rest, u.reader = nil, h2.Reader{MaxBlock: u.reader.MaxBlock}
	_ = u.charge(heads) // gives back
}
