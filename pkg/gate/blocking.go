package gate

import (
	"context"
	"time"
)

// Blocking is an exchange whose caller has a goroutine to wait in, and forwards
// by itself: Describe, Arrive, Admit, Forward, perhaps Switch, End. It has no
// sides, and nothing of it is stepped. Its methods are called by one goroutine
// at a time.
type Blocking struct {
	Exchange
	woken chan struct{} // a token: look whether there is a slot
}

// NewBlocking makes an exchange for one request after the other of g, on a
// clock in ns, above 0.
func NewBlocking(g *Gate, clock func() int64) *Blocking {
	b := &Blocking{woken: make(chan struct{}, 1)}
	b.Bind(g, clock, b.wake, nil)
	return b
}

func (b *Blocking) wake() {
	select {
	case b.woken <- struct{}{}:
	default: // there is a token
	}
}

// Arrive is Begin, now.
func (b *Blocking) Arrive() {
	now := b.clock()
	b.Arrived = time.Duration(now)
	b.Begin(now, nil, nil)
}

// Admit returns when the exchange has a slot. With refused there is none, and
// the caller ends the exchange with o. The end of ctx means that the client has
// left, or that its deadline is the request's.
func (b *Blocking) Admit(ctx context.Context) (o Outcome, refused bool) {
	if o, refused = leftBy(ctx); refused {
		return o, true
	}
	if o, refused = b.enqueue(); refused || b.state != StateQueued {
		return o, refused
	}
	return b.awaitSlot(ctx)
}

// awaitSlot is Admit of an exchange that has a place in the queue.
func (b *Blocking) awaitSlot(ctx context.Context) (o Outcome, refused bool) {
	var due <-chan time.Time
	next := Earliest(b.clocks.Next(), b.claim.next())
	if next != 0 {
		timer := time.NewTimer(time.Duration(next - b.clock()))
		defer timer.Stop()
		due = timer.C
	}
	for b.state == StateQueued && !refused {
		now := int64(0)
		select {
		case <-b.woken:
		case <-due:
			now = next
		case <-ctx.Done():
		}
		if o, refused = leftBy(ctx); !refused {
			o, refused = b.queued(max(now, b.clock()))
		}
	}
	return o, refused
}

// leftBy tells what the end of a context means to an exchange.
func leftBy(ctx context.Context) (o Outcome, left bool) {
	switch ctx.Err() {
	case nil:
		return Served, false
	case context.DeadlineExceeded:
		return RequestTimeout, true
	}
	return ClientGone, true
}

// Forward says that the request goes on, to what stands for the container.
func (b *Blocking) Forward() {
	b.to(StateAwaiting)
	b.Forwarded = b.Admitted
}

// Switch turns the exchange into a tunnel.
func (b *Blocking) Switch() {
	b.to(StateTunnelling)
	b.gate.Drain.EnterTunnel()
}

// AnswerProbe is BeginProbe and Reply for a probe that Describe and the caller
// have described: it returns when the result is known. It is false if ctx has
// ended before: the caller has left.
func (b *Blocking) AnswerProbe(ctx context.Context, s Screening, h *ProbeHeaders) (Reply, bool) {
	r, ok := b.gate.ReplyToProbe(s.Kind, s.Caller, b.Peer.Addr(), h, func() (ReadinessResult, bool) {
		return b.gate.WaitReady(ctx, s.Caller)
	})
	if ok {
		b.gate.probed(&b.Record, &r, b.clock)
	}
	return r, ok
}
