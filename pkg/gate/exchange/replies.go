package exchange

import (
	"context"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
)

// RejectionReply returns the local reply to a request that the exchange rejected with
// o, at now on the engine's clock.
func (g *Gate) RejectionReply(o gate.Outcome, now int64) gate.Reply {
	r := gate.ReplyTo(o)
	r.Status = g.statusOf(o)
	if o.Meaning().QueueRetry && g.Overload.MeasuredRetry {
		r.Retry = g.Admission.RetryAfter(now)
	}
	return r
}

// statusOf returns the status of the reply to a request that ends with o.
func (g *Gate) statusOf(o gate.Outcome) int {
	m := o.Meaning()
	if m.QueueRetry && g.QueueRefusalStatus != 0 {
		return g.QueueRefusalStatus
	}
	return m.Status
}

// ReplyToProbe returns the reply to a probe of the given kind, not Traffic. It calls
// ready if the reply depends on readiness; ready returns false if the prober has
// disconnected, and then there is no reply. peer is the prober's address. For an
// untrusted prober, c is AnyProber.
func (g *Gate) ReplyToProbe(kind gate.Kind, c gate.Prober, peer netip.Addr, h *gate.ProbeHeaders, ready func() (gate.ReadinessResult, bool)) (gate.Reply, bool) {
	if g.Drain.Active() {
		return gate.ReplyTo(gate.ShuttingDown), true
	}
	switch kind {
	case gate.NetworkProbe:
		return gate.Reply{Outcome: gate.Probed, Status: 200, Hash: h.NetworkHash}, true
	case gate.HashlessProbe:
		r := gate.ReplyTo(gate.ProbeRejected)
		r.Body = `a probe request must contain a non-empty "K-Network-Hash" header`
		return r, true
	case gate.BadProbe:
		r := gate.ReplyTo(gate.ProbeRejected)
		r.Body = "unexpected probe header value: " + string(h.NetworkProbe)
		return r, true
	case gate.Traffic:
		panic("BUG: traffic is not a probe")
	}
	result, ok := ready()
	if !ok {
		return gate.Reply{}, false
	}
	var r gate.Reply
	switch {
	case g.Drain.Active():
		r = gate.ReplyTo(gate.ShuttingDown)
	case result.Ready:
		r = gate.Reply{Outcome: gate.Probed, Status: 200, Body: "queue"}
	default:
		r = gate.ReplyTo(gate.NotReady)
		r.Reason = result.ReasonFor(c, peer)
	}
	if len(h.NetworkHash) > 0 {
		r.Hash = h.NetworkHash
	}
	return r, true
}

// WaitReady waits for the readiness result or the start of a drain. It is false if ctx
// ended first: the prober has disconnected.
func (g *Gate) WaitReady(ctx context.Context, c gate.Prober) (gate.ReadinessResult, bool) {
	if result, known := g.Readiness.Try(c); known {
		return result, true
	}
	result := make(chan gate.ReadinessResult, 1)
	cancel := g.Readiness.Await(c, func(r gate.ReadinessResult) { result <- r })
	defer cancel()
	select {
	case r := <-result:
		return r, ctx.Err() == nil
	case <-g.Drain.Started():
		return gate.ReadinessResult{}, true
	case <-ctx.Done():
		return gate.ReadinessResult{}, false
	}
}
