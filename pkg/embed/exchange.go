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
	gate      *Gate
	exchange  *exchange.Blocking // until ended
	w         http.ResponseWriter
	r         *http.Request // as it came
	forwarded *http.Request // as next has it
	extras    *extras       // nil: sent is r, unless fields had to be removed

	trusted      bool // the peer is
	hasUntrusted bool // there are fields that next may not see
	returned     bool // by next, without a panic
	hijacked     bool
	ended        atomic.Bool // used once it is hijacked

	headerUsed bool // next has had the header
	wrote      bool // the final head
	status     int  // of it
	written    int64
}

// extras is what only an exchange with a body or a clock has. It is one object
// with it.
type extras struct {
	call    call
	clock   deadline
	body    body
	request http.Request // storage for call.sent, unless clock provides it
}

// exchange makes the exchange of a request and starts its clock.
func (g *Gate) exchange(w http.ResponseWriter, r *http.Request, h *head, trusted bool) *call {
	var x *call
	if timeout := g.cfg.RequestTimeout > 0; timeout || hasBody(r) {
		m := new(extras)
		x, m.call.extras = &m.call, m
	} else {
		x = new(call)
	}
	life := g.getExchange()
	x.gate, x.exchange, x.w, x.r, x.trusted = g, life, w, r, trusted
	x.hasUntrusted = h.gateFields || !trusted && h.forwardingFields
	life.Method, life.Target, life.Protocol, life.Encrypted = bytesOf(r.Method), bytesOf(r.RequestURI), r.Proto, r.TLS != nil
	if slices.Contains(g.cfg.Uncounted, r.URL.Path) {
		life.Context = uncounted{}
	} else if trusted {
		life.RouteTag, life.DefaultRoute, life.HasDefaultRoute = h.routeTag, h.defaultRoute, h.defaultRoute != nil
		life.Proxied = h.proxied
	}
	life.Arrive()
	if d := g.cfg.RequestTimeout; d > 0 {
		x.extras.clock.begin(r.Context(), g.born.Add(life.Arrived+d))
	}
	return x
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// uncounted marks an exchange that is left out of the figures.
type uncounted struct{}

// serve takes the request through admission and next.
func (x *call) serve(next http.Handler) {
	if why := x.exchange.Admit(x.r.Context()); why != gate.Undecided {
		x.reject(why)
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
	x.exchange.Forward()
	next.ServeHTTP(x.writer(), x.forwarded)
	x.returned = true
}

// reject ends a request that has not got a slot.
func (x *call) reject(why gate.Outcome) {
	x.end(why)
	if why == gate.ClientGone {
		panic(http.ErrAbortHandler) // else net/http would make up a 200
	}
	x.gate.rejectRequest(x.w, x.r, why)
}

// prepare makes the request that next gets: mostly the one that came, where
// there is neither a clock nor a body.
func (x *call) prepare() {
	x.forwarded = x.r
	m := x.extras
	switch {
	case m == nil && !x.hasUntrusted:
		return
	case m == nil:
		x.forwarded = x.r.WithContext(x.r.Context())
	case m.clock.set():
		x.forwarded = x.r.WithContext(&m.clock)
	default:
		m.request = *x.r
		x.forwarded = &m.request
	}
	if x.hasUntrusted {
		x.forwarded.Header = cleanHeader(x.r.Header, x.trusted)
	}
	if hasBody(x.r) {
		m.body = body{src: x.r.Body, x: x}
		x.forwarded.Body = &m.body
		x.forwarded.Trailer = cleanHeader(x.r.Trailer, x.trusted)
	}
}

// conclude ends a request that next has had, and answers where next ran out of
// time without an answer. v is what next panicked with.
func (x *call) conclude(v any) {
	if x.forwarded != x.r && x.returned {
		// Where net/http and outer handlers look for what next left there.
		x.r.MultipartForm, x.r.Pattern = x.forwarded.MultipartForm, x.forwarded.Pattern
	}
	switch {
	case !x.returned:
		x.end(x.panicOutcome(v))
	case x.hijacked: // the connection's Close ends it
		x.stopClock()
	case !x.wrote && x.extras != nil && x.extras.clock.expired():
		x.end(gate.RequestTimeout)
		x.gate.rejectRequest(x.w, x.r, gate.RequestTimeout)
	default:
		o := gate.Served
		if x.disconnected() {
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

// disconnected reports whether the client has left, as far as net/http can tell.
func (x *call) disconnected() bool { return x.r.Context().Err() == context.Canceled }

// panicOutcome is the outcome of a request whose handler has panicked with v.
func (x *call) panicOutcome(v any) gate.Outcome {
	switch {
	case v != http.ErrAbortHandler:
		return gate.InternalError
	case x.disconnected():
		return gate.ClientGone
	}
	return gate.UpstreamBrokeOff
}

func (x *call) stopClock() {
	if x.extras != nil {
		x.extras.clock.stop()
	}
}

// end says how the request went, and ends its life. Only the first call does
// anything: a panic and the close of a hijacked connection may both end it.
func (x *call) end(o gate.Outcome) {
	if x.hijacked && x.ended.Swap(true) {
		return
	}
	x.stopClock()
	life := x.exchange
	life.Status = x.status
	if x.extras != nil {
		life.RequestBody = x.extras.body.taken.Load()
	}
	if x.r.Method != http.MethodHead {
		life.ResponseBody = x.written
	}
	life.End(o)
	x.gate.putExchange(life)
}
