package embed

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// exchange is one request that is traffic, from its arrival to its end: the
// end of the handler, or of the connection that it hijacked. It is also the
// handler's ResponseWriter, which may outlive the handler; so it is not reused.
type exchange struct {
	gate *Gate
	w    http.ResponseWriter
	r    *http.Request // as it came
	sent *http.Request // as next has it

	clock deadline
	body  body

	uncounted bool
	proxied   bool // by the activator

	tag, defaultRoute []byte // as the ingress set them; nil = absent

	slot     bool
	returned bool // by next, without a panic
	hijacked bool
	ended    atomic.Bool

	touched bool // next has had the header
	wrote   bool // the final head
	status  int  // of it
	written int64

	arrived, admitted time.Duration // admitted: 0 = never
}

// begin counts the request and starts its clock.
func (x *exchange) begin() {
	g, h := x.gate, x.r.Header
	x.arrived = g.now()
	g.enter(x.arrived)
	x.uncounted = slices.Contains(g.cfg.Uncounted, x.r.URL.Path)
	if !x.uncounted {
		x.tag, x.defaultRoute = first(h, "Knative-Serving-Tag"), first(h, "Knative-Serving-Default-Route")
		x.proxied = string(first(h, "K-Proxy-Request")) == "activator"
		g.counting.Begin(x.arrived, x.proxied)
	}
	if d := g.cfg.RequestTimeout; d > 0 {
		x.clock.begin(x.r.Context(), g.born.Add(x.arrived+d))
	}
}

// serve takes the request through admission and next.
func (x *exchange) serve(next http.Handler) {
	why := gate.InternalError
	defer func() {
		if !x.slot {
			x.refuse(why)
			return
		}
		v := recover()
		x.conclude(v)
		if v != nil {
			panic(v)
		}
	}()
	if why = x.admit(); why != gate.Served {
		return
	}
	x.prepare()
	next.ServeHTTP(x.writer(), x.sent)
	x.returned = true
}

// context ends when the client leaves or when the request's time is up.
func (x *exchange) context() context.Context {
	if x.clock.set() {
		return &x.clock
	}
	return x.r.Context()
}

// admit takes a slot or waits in the queue for one.
func (x *exchange) admit() gate.Outcome {
	err := x.gate.gate.Admission.Wait(x.context(), x.gate.cfg.QueueMaxWait)
	switch {
	case err == nil:
		x.slot, x.admitted = true, x.gate.now()
		return gate.Served
	case errors.Is(err, gate.ErrQueueFull):
		return gate.QueueFull
	case errors.Is(err, gate.ErrQueueWaitExpired):
		return gate.QueueWaitExpired
	case x.context().Err() == context.DeadlineExceeded:
		return gate.RequestTimeout
	}
	return gate.ClientGone
}

// refuse ends a request that has not got a slot.
func (x *exchange) refuse(why gate.Outcome) {
	x.end(why)
	if why == gate.ClientGone {
		panic(http.ErrAbortHandler) // else net/http would make up a 200
	}
	x.gate.refuse(x.w, x.r, why)
}

// prepare makes the request that next gets. Without a clock and a body it is
// the one that came.
func (x *exchange) prepare() {
	x.sent = x.r
	hasBody := x.r.Body != nil && x.r.Body != http.NoBody
	if !hasBody && !x.clock.set() {
		return
	}
	x.sent = x.r.WithContext(x.context())
	if hasBody {
		x.body = body{src: x.r.Body, came: x.r, sent: x.sent}
		x.sent.Body = &x.body
	}
}

// conclude ends a request that next has had, and answers where next ran out of
// time without an answer. v is what next panicked with.
func (x *exchange) conclude(v any) {
	if x.sent != x.r && x.returned {
		// Where net/http and outer handlers look for what next left there.
		x.r.MultipartForm, x.r.Pattern = x.sent.MultipartForm, x.sent.Pattern
	}
	switch {
	case !x.returned:
		x.end(x.broken(v))
	case x.hijacked: // the connection's Close ends it
		x.clock.stop()
	case !x.wrote && x.clock.expired():
		x.end(gate.RequestTimeout)
		x.gate.refuse(x.w, x.r, gate.RequestTimeout)
	default:
		o := gate.Served
		if x.gone() {
			o = gate.ClientGone
		}
		wrote := x.wrote
		x.finish()
		if o == gate.ClientGone && !wrote {
			x.status = 0 // nobody gets it
		}
		x.end(o)
	}
}

// gone reports whether the client has left, as far as net/http can tell.
func (x *exchange) gone() bool { return x.r.Context().Err() == context.Canceled }

// broken is the outcome of a request whose handler has panicked with v.
func (x *exchange) broken(v any) gate.Outcome {
	switch {
	case v != http.ErrAbortHandler:
		return gate.InternalError
	case x.gone():
		return gate.ClientGone
	}
	return gate.UpstreamBrokeOff
}

// end gives the slot back and counts the request. Only the first call does
// anything: a panic and the close of a hijacked connection may both end it.
func (x *exchange) end(o gate.Outcome) {
	if x.ended.Swap(true) {
		return
	}
	g := x.gate
	x.clock.stop()
	if x.slot {
		g.gate.Admission.End()
	}
	if x.hijacked {
		g.gate.Drain.LeaveTunnel()
	} else {
		g.gate.Drain.Leave()
	}
	g.tell()
	if !x.uncounted {
		at := g.now()
		g.counting.End(at, x.proxied)
		x.observe(o, at)
	}
}

// observe counts how the request ended.
func (x *exchange) observe(o gate.Outcome, at time.Duration) {
	seen := gate.Exchange{
		Method: []byte(x.r.Method), Protocol: x.r.Proto, Encrypted: x.r.TLS != nil, Status: x.status, Outcome: o, Proxied: x.proxied,
		RouteTag: x.tag, DefaultRoute: x.defaultRoute, HasDefaultRoute: x.defaultRoute != nil,
		Arrived: x.arrived, Admitted: x.admitted, Forwarded: x.admitted, Ended: at,
		RequestBody: x.body.taken.Load(), ResponseBody: x.written,
	}
	if seen.Status == 0 {
		seen.Status = o.Meaning().Status
	}
	if x.r.Method == http.MethodHead {
		seen.ResponseBody = 0
	}
	x.gate.requests.Observe(&seen, gate.TraceID{})
}
