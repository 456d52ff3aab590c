// Package fast puts the gate of pkg/embed in front of a fasthttp server, and of
// what stands on one, such as Fiber. It is a package of its own so that only
// programs that use it link fasthttp.
//
// All is as with net/http (see embed), except what fasthttp does not tell or
// allow:
//   - A client that leaves is not noticed: a request that waits keeps its place,
//     and one in its handler is counted as served.
//   - Config.RequestTimeout ends a wait in the queue; a handler is not notified.
//   - Fields of a request that no handler may see are removed from the request
//     itself.
//   - A body that a handler streams is written after it has returned. Use
//     StreamBody, and Hijack, in the place of the methods of the RequestCtx: they
//     keep the slot until the stream or the connection has ended.
package fast

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Handler puts g in front of next. Several handlers may share a gate. It looks
// at the head as it came: put it around handlers that change that, not inside.
func Handler(g *embed.Gate, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	h := &handler{gate: g, core: g.Core(), next: next}
	h.exchanges.New = func() any { return &call{handler: h, life: g.NewExchange()} }
	return h.serve
}

type handler struct {
	gate      *embed.Gate
	core      *exchange.Gate
	next      fasthttp.RequestHandler
	exchanges sync.Pool
}

// call is a proxied request, from its arrival to its end.
type call struct {
	handler    *handler
	life       *exchange.Blocking
	endsLater  bool        // it ends with the stream or the connection
	endPending atomic.Bool // with later: that end is still to come
}

// exchangeKey is where a RequestCtx has its exchange.
type exchangeKey struct{}

func (h *handler) serve(ctx *fasthttp.RequestCtx) {
	distrust := len(h.core.TrustedSources) > 0
	var head head
	head.read(&ctx.Request.Header, distrust)
	arrival := exchange.Arrival{Probe: head.probe, Encrypted: ctx.IsTLS()}
	if distrust {
		arrival.Peer = peerOf(ctx).Addr()
	}
	screening := h.core.Screen(&arrival)
	if screening.Kind != gate.Traffic {
		h.probe(ctx, screening, &arrival.Probe)
		return
	}
	h.traffic(ctx, &head, screening.Trusted, arrival.Encrypted)
}

// probe answers a probe of the platform. It needs no slot.
func (h *handler) probe(ctx *fasthttp.RequestCtx, s exchange.Screening, probe *gate.ProbeHeaders) {
	x := h.exchanges.Get().(*call)
	x.life.Peer = peerOf(ctx)
	a, ok := x.life.AnswerProbe(context.Background(), s, probe)
	x.life.Reset()
	h.exchanges.Put(x)
	if ok {
		h.reply(ctx, &a)
	}
}

// traffic takes a request through admission and next.
func (h *handler) traffic(ctx *fasthttp.RequestCtx, head *head, trusted, encrypted bool) {
	header := &ctx.Request.Header
	x := h.exchanges.Get().(*call)
	life := x.life
	life.Method, life.Target, life.Encrypted, life.Protocol = header.Method(), header.RequestURI(), encrypted, "HTTP/1.1"
	if !header.IsHTTP11() {
		life.Protocol = "HTTP/1.0"
	}
	if h.gate.CountsAll() || h.gate.Count(life, ctx.Path()) {
		if trusted {
			life.RouteTag, life.DefaultRoute, life.HasDefaultRoute = head.routeTag, head.defaultRoute, head.defaultRoute != nil
			life.Proxied = string(head.proxyRequest) == "activator"
		}
	}
	life.RequestBody = int64(max(header.ContentLength(), 0))
	life.Arrive()
	if why := life.Admit(context.Background()); why != gate.Undecided {
		x.end(nil, why)
		a := h.core.RejectionReply(why, 0)
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
		case x.endsLater:
			x.endLater(gate.InternalError) // its stream or connection still knows it
		default:
			x.end(ctx, gate.InternalError)
		}
	}()
	h.next(ctx)
	returned = true
	for name := range ctx.Response.Header.All() {
		if gate.IsGateField(name) {
			ctx.Response.Header.DelBytes(name)
		}
	}
	if !ctx.Hijacked() { // else fasthttp would close it before it is served
		h.announceClose(ctx)
	}
	if !x.endsLater {
		x.end(ctx, gate.Served)
	}
}

// end gives the slot back, and x to another request. ctx is nil if there was no
// handler.
func (x *call) end(ctx *fasthttp.RequestCtx, o gate.Outcome) {
	if ctx != nil {
		ctx.RemoveUserValue(exchangeKey{})
		if o == gate.Served {
			x.life.Status = ctx.Response.StatusCode()
			if !ctx.Response.IsBodyStream() && !ctx.IsHead() {
				x.life.ResponseBody = int64(len(ctx.Response.Body()))
			}
		}
	}
	x.life.End(o)
	x.life.Reset()
	x.handler.exchanges.Put(x)
}

// postpone makes the slot come back with endLater.
func (x *call) postpone(ctx *fasthttp.RequestCtx) {
	x.endsLater = true
	x.endPending.Store(true)
	x.life.Status = ctx.Response.StatusCode()
	ctx.RemoveUserValue(exchangeKey{})
}

// endLater gives the slot back. Only the first call does anything; so x is not
// used again.
func (x *call) endLater(o gate.Outcome) {
	if x.endPending.CompareAndSwap(true, false) {
		x.life.End(o)
	}
}

// StreamBody is ctx.SetBodyStreamWriter that keeps the slot until write has
// returned. Without a gate in front it is the same as that.
func StreamBody(ctx *fasthttp.RequestCtx, write fasthttp.StreamWriter) {
	x, _ := ctx.UserValue(exchangeKey{}).(*call)
	if x == nil {
		ctx.SetBodyStreamWriter(write)
		return
	}
	x.postpone(ctx)
	ctx.SetBodyStreamWriter(func(w *writer) {
		defer x.endLater(gate.Served)
		write(w)
	})
}

// Hijack is ctx.Hijack that keeps the slot until serve has returned. Without a
// gate in front it is the same as that.
func Hijack(ctx *fasthttp.RequestCtx, serve fasthttp.HijackHandler) {
	x, _ := ctx.UserValue(exchangeKey{}).(*call)
	if x == nil {
		ctx.Hijack(serve)
		return
	}
	x.postpone(ctx)
	x.life.Switch()
	// fasthttp never calls it where the response cannot be written, or closes the
	// connection; then it drops ctx, and that is all there is to be noticed.
	never := runtime.AddCleanup(ctx, func(x *call) { x.endLater(gate.ClientGone) }, x)
	ctx.Hijack(func(c net.Conn) {
		never.Stop()
		defer x.endLater(gate.Tunnelled)
		serve(c)
	})
}

// reply sends a reply of the gate's own.
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

// announceClose tells the client of a draining gate to close.
func (h *handler) announceClose(ctx *fasthttp.RequestCtx) {
	if h.core.Drain.Active() {
		ctx.SetConnectionClose()
	}
}

// peerOf is where a request comes from; invalid for a Unix socket.
func peerOf(ctx *fasthttp.RequestCtx) netip.AddrPort {
	if a, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// present is nil for a field that is absent or empty: fasthttp tells no
// difference.
func present(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	return value
}
