package embed

import (
	"context"
	"net/http"
	"slices"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// exchange is what net/http knows of a request that is traffic, from its
// arrival to its end: the end of the handler, or of the connection that it
// hijacked. It is also the handler's ResponseWriter, which may outlive the
// handler; so it is not reused, as life is.
type exchange struct {
	gate *Gate
	life *gate.Blocking // until ended
	w    http.ResponseWriter
	r    *http.Request // as it came
	sent *http.Request // as next has it

	clock deadline
	body  body

	trusted  bool // the peer is
	returned bool // by next, without a panic
	hijacked bool
	ended    atomic.Bool

	touched bool // next has had the header
	wrote   bool // the final head
	status  int  // of it
	written int64
}

// uncounted marks an exchange that is left out of the figures.
type uncounted struct{}

// begin says what the request is, and starts its clock.
func (x *exchange) begin() {
	g, h, life := x.gate, x.r.Header, x.gate.borrow()
	x.life = life
	life.Method, life.Protocol, life.Encrypted = bytesOf(x.r.Method), x.r.Proto, x.r.TLS != nil
	if slices.Contains(g.cfg.Uncounted, x.r.URL.Path) {
		life.Context = uncounted{}
	} else {
		life.RouteTag, life.DefaultRoute = first(h, "Knative-Serving-Tag"), first(h, "Knative-Serving-Default-Route")
		life.HasDefaultRoute = life.DefaultRoute != nil
		life.Proxied = x.trusted && string(first(h, "K-Proxy-Request")) == "activator"
	}
	life.Arrive()
	if d := g.cfg.RequestTimeout; d > 0 {
		x.clock.begin(x.r.Context(), g.born.Add(life.Arrived+d))
	}
}

// serve takes the request through admission and next.
func (x *exchange) serve(next http.Handler) {
	if why, refused := x.life.Admit(x.r.Context()); refused {
		x.refuse(why)
		return
	}
	defer func() {
		v := recover()
		x.conclude(v)
		if v != nil {
			panic(v)
		}
	}()
	x.prepare()
	x.life.Forward()
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

// refuse ends a request that has not got a slot.
func (x *exchange) refuse(why gate.Outcome) {
	x.end(why)
	if why == gate.ClientGone {
		panic(http.ErrAbortHandler) // else net/http would make up a 200
	}
	x.gate.refuse(x.w, x.r, why)
}

// prepare makes the request that next gets: mostly the one that came, where
// there is neither a clock nor a body.
func (x *exchange) prepare() {
	x.sent = x.r
	hasBody := x.r.Body != nil && x.r.Body != http.NoBody
	header, removed := cleanHeader(x.r.Header, x.trusted)
	if !hasBody && !removed && !x.clock.set() {
		return
	}
	x.sent = x.r.WithContext(x.context())
	x.sent.Header = header
	if hasBody {
		x.body = body{src: x.r.Body, x: x}
		x.sent.Body = &x.body
		x.sent.Trailer, _ = cleanHeader(x.r.Trailer, x.trusted)
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
			x.status = 0 // no client gets it
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

// end says how the request went, and ends its life. Only the first call does
// anything: a panic and the close of a hijacked connection may both end it.
func (x *exchange) end(o gate.Outcome) {
	if x.ended.Swap(true) {
		return
	}
	x.clock.stop()
	life := x.life
	life.Status, life.RequestBody = x.status, x.body.taken.Load()
	if x.r.Method != http.MethodHead {
		life.ResponseBody = x.written
	}
	life.End(o)
	x.gate.giveBack(life)
}
