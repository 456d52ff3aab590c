package embed

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Call describes a request that does not come through Handler, such as one of a gRPC
// server with its own transport.
type Call struct {
	Method, Target, Protocol string         // such as POST, /package.Service/Method and HTTP/2.0
	Peer                     netip.AddrPort // invalid = unknown, and so not trusted if there are TrustedSources
	Encrypted                bool           // received over TLS
	// Header returns the fields for QueueFairBy, QueuePriorityBy and QueueDeadlineBy,
	// their names in any case. It is called only if one of these is set. nil = none.
	Header func() map[string][]string
}

// Begin takes a slot for a call, or waits for one as Handler does. Unless the error is
// nil, it is a *Rejection, and there is no slot. The caller must call End.
func (g *Gate) Begin(ctx context.Context, c Call) (*Slot, error) {
	s := g.state()
	x := &Slot{state: s, life: s.GetExchange(), ctx: ctx}
	life := x.life
	life.Method, life.Target, life.Protocol = bytesOf(c.Method), bytesOf(c.Target), c.Protocol
	life.Peer, life.Encrypted = c.Peer, c.Encrypted
	if c.Header != nil && s.NeedsHead {
		life.Fields = fields(c.Header())
	}
	s.Count(life, life.Target)
	life.Arrive()
	if why := life.Admit(ctx); why != gate.Undecided {
		reply := life.RejectionReply(why, s.Clock())
		x.end(why, 0)
		return nil, rejectionOf(&reply)
	}
	if d := s.Gate.RequestTimeout; d > 0 {
		x.clock.begin(ctx, s.At(life.Arrived+d))
		x.ctx = &x.clock
	}
	life.Forward()
	return x, nil
}

// Slot is the slot of a call. Its methods must not be called concurrently.
type Slot struct {
	state *core.State
	life  *exchange.Blocking // nil once ended
	ctx   context.Context
	clock deadline
}

// Context returns the context for the work: that of Begin, with the deadline of
// RequestTimeout.
func (s *Slot) Context() context.Context { return s.ctx }

// End releases the slot. status is the HTTP status of the response for metrics; 0 means
// that the work panicked. If the deadline of Context has passed, End returns a
// *Rejection, which is the response unless the caller has sent another one.
func (s *Slot) End(status int) error {
	var o gate.Outcome
	switch s.ctx.Err() {
	case nil:
		o = gate.Served
	case context.DeadlineExceeded:
		o = gate.RequestTimeout
	default:
		o = gate.ClientGone
	}
	if status == 0 {
		o = gate.InternalError
	}
	s.clock.stop()
	if o != gate.Served {
		status = 0 // that of the outcome
	}
	s.end(o, status)
	if o != gate.RequestTimeout {
		return nil
	}
	reply := gate.ReplyTo(o)
	return rejectionOf(&reply)
}

func (s *Slot) end(o gate.Outcome, status int) {
	s.life.Status = status
	s.life.End(o)
	s.state.PutExchange(s.life)
	s.life = nil
}

// Rejection is the response of the gate to a call that it has not admitted, or that has
// exceeded RequestTimeout.
type Rejection struct {
	Outcome     string        // as in K-Gate-Outcome
	Status      int           // of HTTP
	GRPC        int           // status of gRPC
	Message     string        // for the client, without internal details
	ProxyStatus string        // field value of RFC 9209; empty = none
	RetryAfter  time.Duration // 0 = none
}

// Error implements error.
func (r *Rejection) Error() string { return fmt.Sprintf("%s: %s", r.Outcome, r.Message) }

func rejectionOf(a *gate.Reply) *Rejection {
	return &Rejection{
		Outcome: a.Outcome.String(), Status: a.Status, GRPC: a.Outcome.Meaning().GRPC, Message: a.Body,
		ProxyStatus: a.Outcome.ProxyStatus(), RetryAfter: time.Duration(a.Retry) * time.Second,
	}
}
