// Package fast puts the gate of package embed in front of a fasthttp server, or of
// frameworks based on fasthttp, such as Fiber.
//
// Because of limitations of fasthttp, it differs from package embed:
//   - A disconnected client is not noticed: its request stays queued, and a request in
//     its handler is counted as served.
//   - Config.RequestTimeout ends a wait in the queue; handlers are not notified.
//   - Fields that handlers must not see are removed from the request itself.
//   - A streamed body is written, and a hijacked connection served, after the handler
//     has returned. The slot is held until then. At Config.RequestTimeout the connection
//     of a stream is cut, so that its next write fails.
package fast

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Handler puts g in front of next. Several handlers may share a gate. Handler must be
// outside of handlers that modify request headers.
func Handler(g *embed.Gate, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	state := (*core.Gate)(g).State()
	h := &handler{state: state, gate: state.Gate, next: next}
	h.exchanges.New = func() any { return &call{handler: h, life: state.NewExchange()} }
	return h.serve
}

type handler struct {
	state     *core.State
	gate      *exchange.Gate
	next      fasthttp.RequestHandler
	exchanges sync.Pool
}

// call is a request that counts as traffic.
type call struct {
	handler *handler
	life    *exchange.Blocking
	later   later // used if the call ends after its handler has returned
}

// exchangeKey is the key under which a RequestCtx holds its call.
type exchangeKey struct{}

func (h *handler) serve(ctx *fasthttp.RequestCtx) {
	distrust := len(h.gate.TrustedSources) > 0
	var head head
	head.read(&ctx.Request.Header, distrust)
	arrival := exchange.Arrival{Probe: head.probe, Encrypted: ctx.IsTLS()}
	if distrust {
		arrival.Peer = peerOf(ctx).Addr()
	}
	screening := h.gate.Screen(&arrival)
	if screening.Kind != gate.Traffic {
		h.probe(ctx, screening, &arrival.Probe)
		return
	}
	h.traffic(ctx, &head, screening.Trusted, arrival.Encrypted)
}

// probe replies to a probe of the platform. A probe needs no slot.
func (h *handler) probe(ctx *fasthttp.RequestCtx, s exchange.Screening, probe *gate.ProbeHeaders) {
	x := h.exchanges.Get().(*call)
	x.life.Peer = peerOf(ctx)
	a, ok := x.life.ProbeReply(context.Background(), s, probe)
	x.life.Reset()
	h.exchanges.Put(x)
	if ok {
		h.reply(ctx, &a)
	}
}

// traffic waits for a slot and then calls next.
func (h *handler) traffic(ctx *fasthttp.RequestCtx, head *head, trusted, encrypted bool) {
	header := &ctx.Request.Header
	x := h.exchanges.Get().(*call)
	life := x.life
	life.Method, life.Target, life.Encrypted, life.Protocol = header.Method(), header.RequestURI(), encrypted, "HTTP/1.1"
	if !header.IsHTTP11() {
		life.Protocol = "HTTP/1.0"
	}
	if len(h.state.Uncounted) == 0 || h.state.Count(life, ctx.Path()) {
		if trusted {
			life.RouteTag, life.DefaultRoute, life.HasDefaultRoute = head.routeTag, head.defaultRoute, head.defaultRoute != nil
			life.Proxied = string(head.proxyRequest) == "activator"
		}
	}
	if h.state.NeedsHead {
		life.Peer, life.Fields = peerOf(ctx), fields{header}
	}
	life.RequestBody = int64(max(header.ContentLength(), 0))
	life.Arrive()
	if outcome := life.Admit(context.Background()); outcome != gate.Undecided {
		a := life.RejectionReply(outcome, h.state.Clock()) // before x.end frees x
		x.end(nil, outcome)
		h.reply(ctx, &a)
		return
	}
	if head.gateFields || !trusted && head.forwardingFields {
		clean(header, trusted)
	}
	life.Forward()
	ctx.SetUserValue(exchangeKey{}, x)
	returned := false
	defer func() {
		switch {
		case returned:
		case x.later.streams:
			x.endLater(gate.InternalError) // the writer of StreamBody still uses x
		default:
			x.end(ctx, gate.InternalError)
		}
	}()
	h.next(ctx)
	returned = true
	if life.Measured() {
		life.Responding(0)
	}
	if t := ctx.LastTimeoutErrorResponse(); t != nil { // fasthttp sends t instead of ctx.Response
		life.Status = t.StatusCode()
		x.endLater(gate.Served)
		return
	}
	for name := range ctx.Response.Header.All() {
		if gate.IsGateField(name) {
			ctx.Response.Header.DelBytes(name)
		}
	}
	// With Connection: close in the response, fasthttp would close a hijacked connection
	// without calling its handler.
	if !ctx.Hijacked() {
		h.announceClose(ctx)
	}
	if ctx.Hijacked() || ctx.Response.IsBodyStream() || x.later.streams {
		x.postpone(ctx)
		return
	}
	x.end(ctx, gate.Served)
}

// end releases the slot and puts x back into the pool. The parameter ctx is nil if no
// handler was called.
func (x *call) end(ctx *fasthttp.RequestCtx, o gate.Outcome) {
	if ctx != nil {
		ctx.RemoveUserValue(exchangeKey{})
		if o == gate.Served {
			x.life.Status = ctx.Response.StatusCode()
			if !ctx.IsHead() {
				x.life.ResponseBody = int64(len(ctx.Response.Body()))
			}
		}
	}
	x.life.End(o)
	x.life.Reset()
	x.handler.exchanges.Put(x)
}

// reply sends a local reply.
func (h *handler) reply(ctx *fasthttp.RequestCtx, a *gate.Reply) {
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(a.Status)
	ctx.Response.Header.SetNoDefaultContentType(true)
	for name, value := range a.Fields {
		ctx.Response.Header.Set(name, value)
	}
	ctx.Response.SetBodyRaw(a.AppendBody(nil))
	ctx.Response.Header.Set("Content-Length", strconv.Itoa(a.Length()))
	h.announceClose(ctx)
}

func (h *handler) announceClose(ctx *fasthttp.RequestCtx) {
	if h.gate.Drain.Active() {
		ctx.SetConnectionClose()
	}
}

// peerOf returns the address of the peer. It is invalid for a Unix socket.
func peerOf(ctx *fasthttp.RequestCtx) netip.AddrPort {
	if a, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// present returns nil for an empty value. fasthttp does not distinguish an absent field
// from an empty one.
func present(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	return value
}
