package http1

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// request reads and serves one request. It reports whether the next one may
// follow at once; if not, the connection is closed or idle.
func (w *worker) request() bool {
	w.req.Reset()
	if !w.readHead() {
		return false
	}
	w.r = len(w.req.Raw)
	if w.req.Asterisk {
		a := gate.Reply{Outcome: gate.Probed, Status: 200}
		return w.answer(&a, w.skipBody() && w.req.KeepAlive())
	}
	if kind, who := gate.Classify(w.req.Probe); kind != gate.Traffic {
		return w.probe(kind, who)
	}
	if w.gate.TLSOnly && !w.conn.sock.Layered() {
		return w.refusePlaintext()
	}
	return w.traffic()
}

// readHead collects a request head and decides upon it. It returns false
// when there is none: the connection is idle, or it is closed.
func (w *worker) readHead() bool {
	c := w.conn
	if w.r > 0 {
		w.w = copy(w.in, w.in[w.r:w.w])
		w.r = 0
	}
	var deadline int64
	skipped := false
	for {
		if !skipped && w.w >= 2 && w.in[0] == '\r' && w.in[1] == '\n' {
			w.w = copy(w.in, w.in[2:w.w]) // RFC 9112 section 2.2: one empty line is forgiven
			skipped = true
			w.req.Reset()
		}
		if w.w > 0 && w.in[0] == 'P' && w.srv.cfg.HTTP2 != nil && !c.spoke && !c.sock.Layered() && startsPreface(w.in[:w.w]) {
			if w.w >= len(preface) {
				w.handOver()
				return false
			}
		} else if w.w > 0 {
			complete, err := w.req.Scan(w.in[:w.w])
			if complete && err == nil {
				err = w.req.Decide()
			}
			if err != nil {
				w.refuseHead(wire.OutcomeOf(err))
				return false
			}
			if complete {
				c.spoke = true
				return true
			}
		}
		if w.w == len(w.in) {
			w.in = grow(w.in)
		}
		n, err := c.sock.Read(w.in[w.w:])
		if err == nil {
			w.w += n
			continue
		}
		if err != loop.ErrAgain || w.srv.leaving.Load() || w.eng.loop.Closing() {
			c.finish()
			return false
		}
		if w.w == 0 {
			return false // idle
		}
		if deadline == 0 {
			deadline = w.now() + int64(w.srv.cfg.HeadTimeout)
		}
		if w.now() >= deadline {
			w.refuseHead(gate.HeadTimeout)
			return false
		}
		w.task.Wait(deadline)
	}
}

// preface begins every connection of HTTP/2 (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// startsPreface reports whether b is, or may become, the preface.
func startsPreface(b []byte) bool {
	n := min(len(b), len(preface))
	return string(b[:n]) == preface[:n]
}

// handOver gives the connection to the HTTP/2 engine.
func (w *worker) handOver() {
	c := w.conn
	fd := c.sock.Detach()
	c.eng.unlink(c)
	w.srv.cfg.HTTP2(fd, c.peer, w.in[:w.w])
	w.r, w.w = 0, 0
}

// grow doubles a buffer, up to a little more than the longest head.
func grow(b []byte) []byte {
	bigger := make([]byte, min(2*len(b), wire.MaxHeadBytes+1))
	copy(bigger, b)
	return bigger
}

// skipBody passes over the request's body if all of it has been read already
// and reports whether that was so. If it was not, where the next request
// begins is unknown.
func (w *worker) skipBody() bool {
	d := &w.upload.body
	d.Begin(w.req.Body, w.req.Length)
	for !d.Ended && w.r < w.w {
		_, n, err := d.Next(w.in[w.r:w.w])
		if w.r += n; err != nil {
			return false
		}
	}
	return d.Ended
}
