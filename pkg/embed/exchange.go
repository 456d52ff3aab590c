package embed

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// call is a net/http request that counts as traffic. It also implements the
// ResponseWriter that the handler gets. A call ends when the handler returns, or when the
// hijacked connection is closed. Calls are not pooled, because a handler may keep the
// ResponseWriter.
type call struct {
	gate      *core.State
	exchange  *exchange.Blocking // nil after the end
	w         http.ResponseWriter
	r         *http.Request // as received
	forwarded *http.Request // as passed to next
	extras    *extras       // nil = no body and no deadline

	trusted      bool // the peer is trusted
	hasUntrusted bool // r contains fields that next must not see
	returned     bool // next has returned without a panic
	hijacked     bool
	hasEnded     atomic.Bool // only used after a hijack

	headerUsed bool // next has called Header
	wrote      bool // next has written the final head
	status     int  // status of the final head
	written    int64
}

// extras contains a call, and the additional state that a call with a body or a deadline
// needs. It is one struct, so that such a call needs only one allocation.
type extras struct {
	call     call
	deadline deadline
	body     body
	request  http.Request // the request for the handler if it has a body but no deadline
}

func newCall(g *core.State, w http.ResponseWriter, r *http.Request, h *head, trusted bool) *call {
	var x *call
	if timeout := g.Gate.RequestTimeout > 0; timeout || hasBody(r) {
		m := new(extras)
		x, m.call.extras = &m.call, m
	} else {
		x = new(call)
	}
	life := g.GetExchange()
	x.gate, x.exchange, x.w, x.r, x.trusted = g, life, w, r, trusted
	x.hasUntrusted = h.gateFields || !trusted && h.forwardingFields
	life.Method, life.Target, life.Protocol, life.Encrypted = bytesOf(r.Method), bytesOf(r.RequestURI), r.Proto, r.TLS != nil
	if g.NeedsHead {
		life.Peer, life.Fields = peerOf(r), fields(r.Header)
	}
	if g.Count(life, bytesOf(r.URL.Path)) && trusted {
		life.RouteTag, life.DefaultRoute, life.HasDefaultRoute = h.routeTag, h.defaultRoute, h.defaultRoute != nil
		life.Proxied = h.proxied
	}
	life.Arrive()
	if d := g.Gate.RequestTimeout; d > 0 {
		x.extras.deadline.begin(r.Context(), g.WallTime(life.Arrived+d))
	}
	return x
}

// fields implements gate.Fields for a header.
type fields http.Header

// Each implements gate.Fields.
func (f fields) Each(yield func(name, value []byte) bool) {
	for name, values := range f {
		for _, v := range values {
			if !yield(bytesOf(name), bytesOf(v)) {
				return
			}
		}
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// serve waits for a slot and then calls next.
func (x *call) serve(next http.Handler) {
	if outcome := x.exchange.Admit(x.r.Context()); outcome != gate.Undecided {
		x.reject(outcome)
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

// reject ends a request that got no slot.
func (x *call) reject(outcome gate.Outcome) {
	a := x.exchange.RejectionReply(outcome, x.gate.Clock()) // before the exchange is reused
	x.end(outcome)
	if outcome == gate.ClientGone {
		panic(http.ErrAbortHandler) // prevents a 200 by net/http
	}
	rejectRequest(x.gate, x.w, x.r, &a)
}

// prepare sets x.forwarded.
func (x *call) prepare() {
	x.forwarded = x.r
	m := x.extras
	switch {
	case m == nil && !x.hasUntrusted:
		return
	case m == nil:
		x.forwarded = x.r.WithContext(x.r.Context())
	case m.deadline.set():
		x.forwarded = x.r.WithContext(&m.deadline)
	default:
		m.request = *x.r
		x.forwarded = &m.request
	}
	if x.hasUntrusted {
		x.forwarded.Header = cleanHeader(x.r.Header, x.trusted)
	}
	if hasBody(x.r) {
		m.body.src, m.body.x, m.body.measured = x.r.Body, x, x.exchange.Measured()
		x.forwarded.Body = &m.body
		x.forwarded.Trailer = cleanHeader(x.r.Trailer, x.trusted)
	}
}

// conclude ends a request after its handler has returned or panicked. The parameter v is
// the value of the panic. If the deadline has passed and the handler has returned without
// a response, conclude sends a local reply.
func (x *call) conclude(v any) {
	if x.forwarded != x.r && x.returned {
		// The handler has set these fields in its copy of the request. Copy them to the
		// received request, where net/http and outer handlers read them.
		x.r.MultipartForm, x.r.Pattern = x.forwarded.MultipartForm, x.forwarded.Pattern
	}
	switch {
	case !x.returned:
		x.end(x.panicOutcome(v))
	case x.hijacked: // the call ends when the connection is closed
		x.stopDeadline()
	case !x.wrote && x.extras != nil && x.extras.deadline.expired():
		a := gate.ReplyTo(gate.RequestTimeout)
		x.wrote = true
		x.end(gate.RequestTimeout)
		rejectRequest(x.gate, x.w, x.r, &a)
	default:
		o := gate.Served
		if x.disconnected() {
			o = gate.ClientGone
		}
		wrote := x.wrote
		x.finish()
		if o == gate.ClientGone && !wrote {
			x.status = 0 // no client receives the response
		}
		x.end(o)
	}
}

// disconnected reports whether net/http has noticed that the client disconnected.
func (x *call) disconnected() bool { return x.r.Context().Err() == context.Canceled }

// responding tells overload control that the response begins now. It also passes the time
// at which the request body was last read, so that a slow upload does not count as time
// of the handler.
func (x *call) responding() {
	if !x.exchange.Measured() {
		return
	}
	var read time.Duration
	if x.extras != nil {
		read = time.Duration(x.extras.body.readAt.Load())
	}
	x.exchange.Responding(read)
}

// panicOutcome returns the outcome of a request whose handler panicked with v.
func (x *call) panicOutcome(v any) gate.Outcome {
	switch {
	case v != http.ErrAbortHandler:
		return gate.InternalError
	case x.disconnected():
		return gate.ClientGone
	}
	return gate.UpstreamBrokeOff
}

func (x *call) stopDeadline() {
	if x.extras != nil {
		x.extras.deadline.stop()
	}
}

// end ends the exchange with o. Only the first call has an effect: both a panic and
// Close of a hijacked connection call it.
func (x *call) end(o gate.Outcome) {
	if x.hijacked && x.hasEnded.Swap(true) {
		return
	}
	x.stopDeadline()
	life := x.exchange
	life.Status = x.status
	if x.extras != nil {
		life.RequestBody = x.extras.body.numRead.Load()
	}
	if x.r.Method != http.MethodHead {
		life.ResponseBody = x.written
	}
	life.End(o)
	x.gate.PutExchange(life)
}
