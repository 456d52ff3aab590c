package fast

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/gate"
)

// later is the state of a call that ends after its handler has returned: a streamed
// body or a hijacked connection.
type later struct {
	streams bool            // StreamBody was called
	cut     *time.Timer     // cuts the connection at the request timeout; nil = no timeout
	never   runtime.Cleanup // ends a hijacked call if fasthttp never calls Close

	mu      sync.Mutex   // guards the fields below
	sending bool         // true from postpone until fasthttp calls Close
	writing bool         // the writer of StreamBody has not returned
	outcome gate.Outcome // outcome at the end of the call; Undecided until its handler has returned
	// slotReleased means that the slot has been released. The call is not reused, because its
	// timer may still use it.
	slotReleased bool
}

// postpone makes the call end when fasthttp has written the response or served the
// hijacked connection. Then fasthttp calls Close of each user value, including x.
func (x *call) postpone(ctx *fasthttp.RequestCtx) {
	l := &x.later
	l.mu.Lock()
	defer l.mu.Unlock()
	x.detach()
	x.life.Status = ctx.Response.StatusCode()
	l.outcome, l.sending = gate.Served, true
	ctx.SetUserValue(exchangeKey{}, x) // put x back if the handler has removed it
	if ctx.Hijacked() {
		l.outcome = gate.Tunnelled
		x.life.Switch()
		x.handler.state.NotifyDrain()
		// If fasthttp cannot write the response, or must close the connection, it does
		// not call x.Close. For this case, a cleanup releases the slot when the garbage
		// collector frees ctx.
		l.never = runtime.AddCleanup(ctx, func(x *call) { x.endLater(gate.ClientGone) }, x)
		return
	}
	if n := ctx.Response.Header.ContentLength(); n > 0 && !ctx.IsHead() {
		x.life.ResponseBody = int64(n)
	}
	if timeout := x.handler.gate.RequestTimeout; timeout > 0 {
		conn, remaining := ctx.Conn(), timeout-x.life.Elapsed(x.handler.state.Clock())
		l.cut = time.AfterFunc(remaining, func() { x.timeOut(conn) })
	}
}

// detach copies the record's bytes, because fasthttp may reuse the RequestCtx before
// the writer of StreamBody has returned.
func (x *call) detach() {
	r := &x.life.Record
	r.Method, r.Target = bytes.Clone(r.Method), bytes.Clone(r.Target)
	r.RouteTag, r.DefaultRoute = bytes.Clone(r.RouteTag), bytes.Clone(r.DefaultRoute)
	r.Fields = nil
}

// Close is called by fasthttp when it has finished with the request.
func (x *call) Close() error {
	x.endPart(&x.later.sending)
	return nil
}

// endPart clears one of the flags later.sending and later.writing; the parameter flag
// points to that flag. If both flags are then false and the handler has returned, the
// call ends.
func (x *call) endPart(flag *bool) {
	l := &x.later
	l.mu.Lock()
	*flag = false
	last, o := !l.sending && !l.writing && l.outcome != gate.Undecided, l.outcome
	l.mu.Unlock()
	if last {
		l.never.Stop()
		x.endLater(o)
	}
}

// endLater releases the slot. Only the first call has an effect.
func (x *call) endLater(o gate.Outcome) {
	x.later.mu.Lock()
	defer x.later.mu.Unlock()
	if x.later.slotReleased {
		return
	}
	x.later.slotReleased = true
	if x.later.cut != nil {
		x.later.cut.Stop()
	}
	x.life.End(o)
}

// timeOut cuts the connection of a stream at the request timeout. The slot is held
// until the application's writer has returned.
func (x *call) timeOut(c net.Conn) {
	x.later.mu.Lock()
	defer x.later.mu.Unlock()
	if x.later.slotReleased {
		return // the call has ended, and c may serve another request
	}
	x.later.outcome = gate.RequestTimeout
	_ = c.SetWriteDeadline(time.Unix(1, 0))
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // do not write a TLS alert
		c = t.NetConn()
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // tell the client at once that the stream has ended
	}
}

// StreamBody calls ctx.SetBodyStreamWriter with the given function. The request holds its
// slot until that function has returned, even if the client disconnects earlier.
func StreamBody(ctx *fasthttp.RequestCtx, write fasthttp.StreamWriter) {
	x, _ := ctx.UserValue(exchangeKey{}).(*call)
	if x == nil {
		ctx.SetBodyStreamWriter(write)
		return
	}
	x.later.mu.Lock()
	x.later.streams, x.later.writing = true, true
	x.later.mu.Unlock()
	ctx.SetBodyStreamWriter(func(w *writer) {
		defer x.endPart(&x.later.writing)
		write(w)
	})
}

// Hijack calls ctx.Hijack with the given function. The request holds its slot until that
// function has returned.
func Hijack(ctx *fasthttp.RequestCtx, serve fasthttp.HijackHandler) { ctx.Hijack(serve) }
