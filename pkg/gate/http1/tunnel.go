package http1

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// switchProtocols turns the exchange into a tunnel after a 101. A container
// that switches without having been asked, to what it was not asked for (RFC
// 9110 section 7.8), or before the request is complete, is not understood.
func (w *worker) switchProtocols() (gate.Outcome, bool) {
	if !w.req.Upgrade || !w.upload.done || !w.req.Offers(&w.res) {
		return gate.UpstreamMalformed, true
	}
	w.passage.answered, w.passage.tunnel = true, true
	w.stamp(&w.exchange.Answered)
	w.exchange.Status = 101
	w.gate.Drain.EnterTunnel()
	w.srv.departed()
	w.clocks.Switched(w.now(), w.gate.TunnelMax)
	w.appendToPeer(func(dst []byte) []byte {
		return w.res.AppendHead(dst, wire.Framing{Interim: true}, nil)
	})

	d, u := &w.download, &w.upload
	d.buf, d.r, d.w = w.uin, w.res.Size(), w.uw
	d.chunked = false
	d.body.Begin(wire.BodyUntilClose, 0)
	d.preload()
	w.toPeer = d.frame

	r, end := u.r, u.w
	u.begin(&w.conn.sock, &w.up.sock, w.toUser[:0], u.buf, r, end)
	u.chunked = false
	u.body.Begin(wire.BodyUntilClose, 0)
	return gate.Served, false
}

// stepTunnel moves the bytes towards the client and passes each direction's
// end on by itself (half-close).
func (w *worker) stepTunnel(moved bool) (bool, gate.Outcome, bool) {
	d, u := &w.download, &w.upload
	moved = d.step(&w.eng.bulks) || moved
	if u.srcErr != nil || u.dstErr != nil || d.srcErr != nil || d.dstErr != nil {
		return moved, gate.Tunnelled, true
	}
	if u.done && !w.passage.upEnded {
		w.passage.upEnded = true
		w.up.sock.CloseWrite()
	}
	if d.done && !w.passage.downEnded {
		w.passage.downEnded = true
		w.conn.sock.CloseWrite()
	}
	if u.done && !d.done && w.conn.sock.Failed() || d.done && !u.done && w.up.sock.Failed() {
		return moved, gate.Tunnelled, true // reset behind a half-close: no read will tell
	}
	if u.done && d.done {
		return moved, gate.Tunnelled, true
	}
	return moved, gate.Served, false
}
