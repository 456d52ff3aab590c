package exchange

import (
	"context"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate"
)

// RejectionReply returns the local reply to the request of x, which was rejected with o.
// now is a time of the engine's clock.
func (x *Exchange) RejectionReply(o gate.Outcome, now int64) gate.Reply {
	r := gate.ReplyTo(o)
	r.Status = x.settings.statusOf(o)
	if o == gate.WaitingPage {
		r.Body, r.HTML, r.Retry = waitingPage, true, waitRefresh
	}
	if v := x.settings.overload; v != nil && v.MeasuredRetry && o.Meaning().QueueRetry {
		r.Retry = x.gate.Admission.RetryAfter(now)
	}
	return r
}

// ReplyToProbe returns the reply to a probe from the address peer. The kind must not be
// Traffic. If the peer is not trusted, the prober c must be AnyProber. If the reply
// depends on readiness, ReplyToProbe calls ready. If ready returns false, the prober has
// disconnected, and ReplyToProbe returns false without a reply.
func (g *Gate) ReplyToProbe(kind gate.Kind, c gate.Prober, peer netip.Addr, h *gate.ProbeHeaders, ready func() (gate.ReadinessResult, bool)) (gate.Reply, bool) {
	if g.Drain.Terminating() {
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
	case g.Drain.Terminating():
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

// WaitReady waits until the readiness result is known or a drain begins. When a drain
// begins, the result is that the gate is not ready. WaitReady returns false if ctx ends,
// which means that the prober has disconnected.
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
