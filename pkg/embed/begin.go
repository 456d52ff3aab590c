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

// Call describes a request of a server without Handler, such as a gRPC server with its
// own transport.
type Call struct {
	Method, Target, Protocol string         // such as POST, /package.Service/Method and HTTP/2.0
	Peer                     netip.AddrPort // invalid = unknown, which is trusted only if TrustedSources is empty
	Encrypted                bool           // received over TLS
	// Header returns the fields for QueueFairBy, QueuePriorityBy and QueueDeadlineBy,
	// with names in any letter case. Begin calls it only if one of these is set. nil =
	// no fields.
	Header func() map[string][]string
}

// Begin acquires a slot for a call, and waits if necessary, like Handler. If it returns
// an error (a *Rejection), there is no slot. Otherwise the caller must call End.
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
	if outcome := life.Admit(ctx); outcome != gate.Undecided {
		reply := life.RejectionReply(outcome, s.Clock())
		x.end(outcome, 0)
		return nil, rejectionOf(&reply)
	}
	if d := s.Gate.RequestTimeout; d > 0 {
		x.deadline.begin(ctx, s.WallTime(life.Arrived+d))
		x.ctx = &x.deadline
	}
	life.Forward()
	return x, nil
}

// Slot is the right of one call to run. Its methods must not be called concurrently.
type Slot struct {
	state    *core.State
	life     *exchange.Blocking // nil after End
	ctx      context.Context
	deadline deadline
}

// Context returns the context for the work: the context passed to Begin, with the
// deadline of RequestTimeout.
func (s *Slot) Context() context.Context { return s.ctx }

// End releases the slot. The parameter status is the HTTP status of the response, which
// is used for metrics; 0 means that the work panicked. If the work did not panic but the
// deadline of Context has passed, End returns a *Rejection. The caller sends it as the
// response if it has not sent a response yet. Otherwise End returns nil.
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
	s.deadline.stop()
	if o != gate.Served {
		status = 0 // 0 = count the request with the status that belongs to its outcome
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

// Rejection is the local reply to a call that got no slot or exceeded RequestTimeout.
type Rejection struct {
	Outcome     string        // as in K-Gate-Outcome
	Status      int           // HTTP status
	GRPC        int           // gRPC status
	Message     string        // for the client, without internal details
	ProxyStatus string        // value of the field Proxy-Status (RFC 9209); empty = no field
	RetryAfter  time.Duration // 0 = no Retry-After
}

// Error implements error.
func (r *Rejection) Error() string { return fmt.Sprintf("%s: %s", r.Outcome, r.Message) }

func rejectionOf(a *gate.Reply) *Rejection {
	return &Rejection{
		Outcome: a.Outcome.String(), Status: a.Status, GRPC: a.Outcome.Meaning().GRPC, Message: a.Body,
		ProxyStatus: a.Outcome.ProxyStatus(), RetryAfter: time.Duration(a.Retry) * time.Second,
	}
}
