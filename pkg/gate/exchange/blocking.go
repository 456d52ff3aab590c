package exchange

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Blocking is an exchange for a caller that forwards the request itself, blocking in its
// own goroutine. The caller calls, in this order, Describe, Arrive, Admit, Forward,
// optionally Switch, and End. The methods must not be called concurrently.
type Blocking struct {
	Exchange
	woken chan struct{} // wakes awaitSlot
}

// NewBlocking returns an exchange for consecutive requests of g. clock returns the time
// in ns, always above 0.
func NewBlocking(g *Gate, clock func() int64) *Blocking {
	b := &Blocking{woken: make(chan struct{}, 1)}
	b.Bind(g, clock, b.wake, nil)
	return b
}

func (b *Blocking) wake() {
	select {
	case b.woken <- struct{}{}:
	default: // already woken
	}
}

// Arrive calls Begin with the current time.
func (b *Blocking) Arrive() {
	now := b.clock()
	b.Arrived = time.Duration(now)
	b.Begin(now, nil, nil)
}

// Admit waits for a slot. It returns Undecided if the exchange has got a slot. With any
// other outcome there is no slot, and the caller must call End with that outcome. If ctx
// is cancelled, the client counts as disconnected; if its deadline passes, the request
// has timed out.
func (b *Blocking) Admit(ctx context.Context) gate.Outcome {
	if o := contextOutcome(ctx); o != gate.Undecided {
		return o
	}
	if o := b.enqueue(); o != gate.Undecided || b.state != StateQueued {
		return o
	}
	return b.awaitSlot(ctx)
}

func (b *Blocking) awaitSlot(ctx context.Context) (o gate.Outcome) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for b.state == StateQueued && o == gate.Undecided {
		now := b.clock()
		next := b.queueDeadline(now)
		var due <-chan time.Time
		if next != 0 {
			timer.Reset(time.Duration(next - now))
			due = timer.C
		}
		select {
		case <-b.woken:
			now = b.clock()
		case <-due:
			now = max(next, b.clock())
		case <-ctx.Done():
		}
		if o = contextOutcome(ctx); o == gate.Undecided {
			o = b.queued(now)
		}
	}
	return o
}

// contextOutcome returns the outcome for a context that has ended; otherwise Undecided.
func contextOutcome(ctx context.Context) gate.Outcome {
	switch ctx.Err() {
	case nil:
		return gate.Undecided
	case context.DeadlineExceeded:
		return gate.RequestTimeout
	}
	return gate.ClientGone
}

// Forward records that the caller forwards the request now.
func (b *Blocking) Forward() {
	b.to(StateAwaiting)
	b.Forwarded = b.Admitted
}

// Measured reports whether the caller should call Responding.
func (b *Blocking) Measured() bool { return b.settings.overload != nil }

// Responding records that the response begins now. Call it if Measured returns true. The
// parameter uploaded is the time at which bytes of the request body were last read; 0 =
// never. The container's time ends now. It begins at the time uploaded, but not before
// the admission. So neither a slow upload nor a slow reader increases it.
func (b *Blocking) Responding(uploaded time.Duration) {
	b.Responded, b.tracked.uploaded = time.Duration(b.clock()), uploaded
}

// Switch turns the exchange into a tunnel.
func (b *Blocking) Switch() {
	b.to(StateTunnelling)
	b.gate.Drain.EnterTunnel()
}

// ProbeReply waits for the readiness result and returns the reply to a probe. It returns
// false if ctx ended first, which means that the prober has disconnected.
func (b *Blocking) ProbeReply(ctx context.Context, s Screening, h *gate.ProbeHeaders) (gate.Reply, bool) {
	r, ok := b.gate.ReplyToProbe(s.Kind, s.Prober, b.Peer.Addr(), h, func() (gate.ReadinessResult, bool) {
		return b.gate.WaitReady(ctx, s.Prober)
	})
	if ok {
		b.gate.observeProbe(&b.Record, &r, b.clock)
	}
	return r, ok
}
