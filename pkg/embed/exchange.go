package embed

import (
	"context"
	"net/http"
	"slices"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// call is a proxied request of net/http. It ends when the handler returns, or when
// the connection that the handler hijacked ends. It is also the handler's
// ResponseWriter, which may outlive the handler; so it is not reused, as life is.
type call struct {
	gate *Gate
	life *exchange.Blocking // until ended
	w    http.ResponseWriter
	r    *http.Request // as it came
	sent *http.Request // as next has it
	more *more         // nil: sent is r, unless fields had to be removed

	trusted  bool // the peer is
	unclean  bool // there are fields that next may not see
	returned bool // by next, without a panic
	hijacked bool
	ended    atomic.Bool // used once it is hijacked

	touched bool // next has had the header
	wrote   bool // the final head
	status  int  // of it
	written int64
}

// more is what only an exchange with a body or a clock has. It is one object
// with it.
type more struct {
	call    call
	clock   deadline
	body    body
	request http.Request // storage for call.sent, unless clock provides it
}

// exchange makes the exchange of a request and starts its clock.
func (g *Gate) exchange(w http.ResponseWriter, r *http.Request, h *head, trusted bool) *call {
	var x *call
	if timeout := g.cfg.RequestTimeout > 0; timeout || hasBody(r) {
		m := new(more)
		x, m.call.more = &m.call, m
	} else {
		x = new(call)
	}
	life := g.borrow()
	x.gate, x.life, x.w, x.r, x.trusted = g, life, w, r, trusted
	x.unclean = h.gateFields || !trusted && h.forwardingFields
	life.Method, life.Target, life.Protocol, life.Encrypted = bytesOf(r.Method), bytesOf(r.RequestURI), r.Proto, r.TLS != nil
	if slices.Contains(g.cfg.Uncounted, r.URL.Path) {
		life.Context = uncounted{}
	} else if trusted {
		life.RouteTag, life.DefaultRoute, life.HasDefaultRoute = h.routeTag, h.defaultRoute, h.defaultRoute != nil
		life.Proxied = h.proxied
	}
	life.Arrive()
	if d := g.cfg.RequestTimeout; d > 0 {
		x.more.clock.begin(r.Context(), g.born.Add(life.Arrived+d))
	}
	return x
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// uncounted marks an exchange that is left out of the figures.
type uncounted struct{}

// serve takes the request through admission and next.
func (x *call) serve(next http.Handler) {
	if why := x.life.Admit(x.r.Context()); why != gate.Undecided {
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

// refuse ends a request that has not got a slot.
func (x *call) refuse(why gate.Outcome) {
	x.end(why)
	if why == gate.ClientGone {
		panic(http.ErrAbortHandler) // else net/http would make up a 200
	}
	x.gate.refuse(x.w, x.r, why)
}

// prepare makes the request that next gets: mostly the one that came, where
// there is neither a clock nor a body.
func (x *call) prepare() {
	x.sent = x.r
	m := x.more
	switch {
	case m == nil && !x.unclean:
		return
	case m == nil:
		x.sent = x.r.WithContext(x.r.Context())
	case m.clock.set():
		x.sent = x.r.WithContext(&m.clock)
	default:
		m.request = *x.r
		x.sent = &m.request
	}
	if x.unclean {
		x.sent.Header = cleanHeader(x.r.Header, x.trusted)
	}
	if hasBody(x.r) {
		m.body = body{src: x.r.Body, x: x}
		x.sent.Body = &m.body
		x.sent.Trailer = cleanHeader(x.r.Trailer, x.trusted)
	}
}

// conclude ends a request that next has had, and answers where next ran out of
// time without an answer. v is what next panicked with.
func (x *call) conclude(v any) {
	if x.sent != x.r && x.returned {
		// Where net/http and outer handlers look for what next left there.
		x.r.MultipartForm, x.r.Pattern = x.sent.MultipartForm, x.sent.Pattern
	}
	switch {
	case !x.returned:
		x.end(x.broken(v))
	case x.hijacked: // the connection's Close ends it
		x.stopClock()
	case !x.wrote && x.more != nil && x.more.clock.expired():
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
func (x *call) gone() bool { return x.r.Context().Err() == context.Canceled }

// broken is the outcome of a request whose handler has panicked with v.
func (x *call) broken(v any) gate.Outcome {
	switch {
	case v != http.ErrAbortHandler:
		return gate.InternalError
	case x.gone():
		return gate.ClientGone
	}
	return gate.UpstreamBrokeOff
}

func (x *call) stopClock() {
	if x.more != nil {
		x.more.clock.stop()
	}
}

// end says how the request went, and ends its life. Only the first call does
// anything: a panic and the close of a hijacked connection may both end it.
func (x *call) end(o gate.Outcome) {
	if x.hijacked && x.ended.Swap(true) {
		return
	}
	x.stopClock()
	life := x.life
	life.Status = x.status
	if x.more != nil {
		life.RequestBody = x.more.body.taken.Load()
	}
	if x.r.Method != http.MethodHead {
		life.ResponseBody = x.written
	}
	life.End(o)
	x.gate.giveBack(life)
}
