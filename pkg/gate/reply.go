package gate

import (
	"context"
	"net/netip"
	"strconv"
)

// Reply is an answer that the gate makes itself.
type Reply struct {
	Outcome Outcome
	Status  int
	Body    string
	Plain   bool   // a plain error: nosniff, and the body ends in a newline
	Retry   int    // Retry-After, in seconds; 0 = none
	Reason  string // K-Readiness-Reason; empty = none
	Hash    []byte // K-Network-Hash; nil = none
}

// ReplyTo is the reply that an outcome means.
func ReplyTo(o Outcome) Reply {
	m := o.Meaning()
	r := Reply{Outcome: o, Status: m.Status, Body: m.Body, Plain: m.Plain}
	if m.Retry {
		r.Retry = 1
	}
	return r
}

// Refusal is the reply to a request that the exchange has refused, at now on the
// engine's clock.
func (g *Gate) Refusal(o Outcome, now int64) Reply {
	r := ReplyTo(o)
	if (o == QueueFull || o == QueueWaitExpired) && g.Overload.MeasuredRetry {
		r.Retry = g.Admission.RetryAfter(now)
	}
	return r
}

// Fields yields the header fields of the reply, but for those that frame it
// and Date.
func (r *Reply) Fields(yield func(name, value string) bool) {
	ok := true
	say := func(name, value string) { ok = ok && yield(name, value) }
	if r.Body != "" {
		say("Content-Type", "text/plain; charset=utf-8")
	}
	if r.Plain {
		say("X-Content-Type-Options", "nosniff")
	}
	if r.Status == 405 {
		say("Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE")
	}
	if r.Retry > 0 {
		say("Retry-After", strconv.Itoa(r.Retry))
	}
	if r.Reason != "" {
		say("K-Readiness-Reason", r.Reason)
	}
	if r.Hash != nil {
		say("K-Network-Hash", string(r.Hash))
	}
	say("K-Gate-Outcome", r.Outcome.String())
}

// Length is that of the body on the wire.
func (r *Reply) Length() int {
	if r.Plain {
		return len(r.Body) + 1
	}
	return len(r.Body)
}

// AppendBody appends the body as it goes on the wire.
func (r *Reply) AppendBody(dst []byte) []byte {
	dst = append(dst, r.Body...)
	if r.Plain {
		dst = append(dst, '\n')
	}
	return dst
}

// ReplyToProbe replies to a probe of the given kind, which is not Traffic. ready
// is called where the reply takes a readiness result; it reports false if the
// caller has left meanwhile, and then there is no reply. peer is where the
// probe comes from; for one that is not trusted, c is AnyCaller.
func (g *Gate) ReplyToProbe(kind Kind, c Caller, peer netip.Addr, h *ProbeHeaders, ready func() (ReadinessResult, bool)) (Reply, bool) {
	if g.Drain.Active() {
		return ReplyTo(ShuttingDown), true
	}
	switch kind {
	case NetworkProbe:
		return Reply{Outcome: Probed, Status: 200, Hash: h.NetworkHash}, true
	case HashlessProbe:
		r := ReplyTo(ProbeRejected)
		r.Body = `a probe request must contain a non-empty "K-Network-Hash" header`
		return r, true
	case BadProbe:
		r := ReplyTo(ProbeRejected)
		r.Body = "unexpected probe header value: " + string(h.NetworkProbe)
		return r, true
	case Traffic:
		panic("BUG: traffic is not a probe")
	}
	result, ok := ready()
	if !ok {
		return Reply{}, false
	}
	var r Reply
	switch {
	case g.Drain.Active():
		r = ReplyTo(ShuttingDown)
	case result.Ready:
		r = Reply{Outcome: Probed, Status: 200, Body: "queue"}
	default:
		r = ReplyTo(NotReady)
		r.Reason = result.ReasonFor(c, peer)
	}
	if len(h.NetworkHash) > 0 {
		r.Hash = h.NetworkHash
	}
	return r, true
}

// WaitReady waits for the readiness result or for a drain to begin, whichever
// is first. It is false if ctx ended: the caller has left.
func (g *Gate) WaitReady(ctx context.Context, c Caller) (ReadinessResult, bool) {
	if result, known := g.Readiness.Try(c); known {
		return result, true
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan ReadinessResult, 1)
	go func() { result <- g.Readiness.Wait(waiting, c) }()
	select {
	case r := <-result:
		return r, ctx.Err() == nil
	case <-g.Drain.Started():
		return ReadinessResult{}, true
	}
}
