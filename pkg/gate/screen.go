package gate

import (
	"context"
	"net/netip"
	"time"

	"go.uber.org/atomic"
)

// Arrival is a request whose head has been read, before anything is decided
// about it.
type Arrival struct {
	Peer      netip.Addr
	Probe     ProbeHeaders
	Asterisk  bool // OPTIONS *
	Encrypted bool // came over TLS
}

// Screening is what a request is treated as.
type Screening struct {
	Kind    Kind // Traffic: it goes through an exchange, unless Refused
	Caller  Caller
	Trusted bool    // what it says of itself and of others is believed
	Self    bool    // OPTIONS *: the gate answers for itself
	Refused bool    // with Outcome, before it counts as a request
	Outcome Outcome // with Refused
}

// Screen decides what a request is. Probes of peers that are not trusted are
// traffic.
func (g *Gate) Screen(a *Arrival) (s Screening) {
	s.Trusted = g.Trusts(a.Peer)
	switch {
	case a.Asterisk:
		s.Self = true
		return s
	case s.Trusted:
		if s.Kind, s.Caller = Classify(a.Probe); s.Kind != Traffic {
			return s
		}
	}
	if g.TLSOnly && !a.Encrypted {
		s.Refused, s.Outcome = true, PlaintextRefused
	}
	return s
}

// ProbeCall is a probe on its way to its reply.
type ProbeCall struct {
	kind   Kind
	caller Caller
	cancel context.CancelFunc // nil = nothing is waited for
	result ReadinessResult
	ok     bool
	done   atomic.Bool
}

// BeginProbe begins to answer a probe. Where the readiness result is not known
// at once it is waited for away from the loop, and wake is called when it is.
func (g *Gate) BeginProbe(s Screening, wake func()) *ProbeCall {
	p := &ProbeCall{kind: s.Kind, caller: s.Caller}
	if s.Kind != ReadinessProbe || g.Drain.Active() {
		return p
	}
	if p.result, p.ok = g.Readiness.Try(s.Caller); p.ok {
		return p
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go p.wait(ctx, g, wake)
	return p
}

func (p *ProbeCall) wait(ctx context.Context, g *Gate, wake func()) {
	p.result, p.ok = g.WaitReady(ctx, p.caller)
	p.done.Store(true)
	wake()
}

// Ready reports whether Reply can be called.
func (p *ProbeCall) Ready() bool { return p.cancel == nil || p.done.Load() }

// Cancel gives up waiting: the caller has left.
func (p *ProbeCall) Cancel() {
	if p.cancel != nil {
		p.cancel()
	}
}

// Reply is the reply to the probe, which the observer is notified of with x. It is
// false if there is none because the caller has left.
func (p *ProbeCall) Reply(g *Gate, x *Exchange, h *ProbeHeaders) (Reply, bool) {
	p.Cancel()
	r, ok := g.ReplyToProbe(p.kind, p.caller, x.Peer.Addr(), h, func() (ReadinessResult, bool) { return p.result, p.ok })
	if ok {
		g.probed(&x.Record, &r, x.clock)
	}
	return r, ok
}

// probed tells the observer how a probe was answered.
func (g *Gate) probed(x *Record, r *Reply, clock func() int64) {
	if o := g.Observer; o != nil {
		x.Outcome, x.Status, x.ResponseBody = r.Outcome, r.Status, int64(r.Length())
		x.Ended = time.Duration(clock())
		o.Probed(x)
	}
}

// Reject tells the observer of a request that never became one.
func (g *Gate) Reject(o Outcome) {
	if obs := g.Observer; obs != nil {
		obs.Rejected(o)
	}
}
