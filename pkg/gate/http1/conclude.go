package http1

import "github.com/queuegate/queuegate/pkg/gate/wire"
import "github.com/queuegate/queuegate/pkg/gate"

// conclude ends the exchange and reports whether the client's connection
// goes on.
func (w *worker) conclude(outcome gate.Outcome) bool {
	w.exchange.RequestBody, w.exchange.ResponseBody = w.upload.payload, w.download.payload
	switch {
	case outcome == gate.Served:
		return w.complete()
	case outcome == gate.Tunnelled:
		w.dropUpstream()
		w.conn.close()
		w.end(outcome)
		return false
	case outcome == gate.ClientGone:
		w.conn.close()
		w.settleHard()
		w.dropUpstream()
		w.end(outcome)
		return false
	case !w.passage.answered:
		w.dropUpstream()
		if d := &w.download; w.write(d.out[d.o:]) { // interim answers on their way
			return w.refuse(outcome)
		}
		w.conn.close()
		w.end(gate.ClientGone)
		return false
	}
	w.dropUpstream()
	if w.res.Body != wire.NoBody && !w.download.chunked && w.res.Body != wire.BodyLength {
		w.conn.reset() // the end of the connection would look like the end of the answer
	} else {
		w.conn.close()
	}
	w.end(outcome)
	return false
}

// complete ends an exchange whose answer has been delivered whole.
func (w *worker) complete() bool {
	d, u, up := &w.download, &w.upload, w.up
	w.up = nil
	clean := d.r == d.w // bytes behind the answer belong to no request
	keep := w.passage.keep
	d.release(&w.eng.bulks)
	if clean && u.done && w.res.Reusable() && !up.spent && !up.sock.HungUp() && !up.sock.Failed() {
		up.promised(w.res.KeepAlive())
		w.eng.up.put(up)
	} else {
		up.close()
	}
	w.end(gate.Served)
	w.recoverInput() // after end: it may overwrite the head that the observer looks at
	if keep {
		return true
	}
	if u.read() && w.r == w.w && w.conn.sock.Quiet() && w.conn.sock.Finish() {
		w.conn.close()
	} else {
		w.linger()
	}
	return false
}

// recoverInput puts what the upload has read beyond its body, the beginning
// of the next request, back into the connection's buffer.
func (w *worker) recoverInput() {
	u := &w.upload
	if u.bulk == nil {
		if u.buf != nil {
			w.r = u.r
		} else {
			w.r, w.w = 0, 0
		}
	} else {
		rest := u.buf[u.r:u.w]
		for len(w.in) < len(rest) {
			w.in = grow(w.in)
		}
		w.r, w.w = 0, copy(w.in, rest)
	}
	u.r, u.w = 0, 0
	u.release(&w.eng.bulks)
}

// refuse answers in the gate's own name, before anything of an answer has
// gone out, and ends the request.
func (w *worker) refuse(outcome gate.Outcome) bool {
	if w.passage.composed {
		whole := w.upload.body.Ended
		w.end(outcome)
		w.recoverInput()
		return w.refuseWith(outcome, whole)
	}
	w.end(outcome)
	return w.refuseWith(outcome, outcome != gate.ClientGone && w.skipBody())
}

func (w *worker) refuseWith(outcome gate.Outcome, whole bool) bool {
	if outcome == gate.ClientGone {
		w.conn.close()
		return false
	}
	a := gate.ReplyTo(outcome)
	return w.answer(&a, whole && outcome != gate.BadRequest && w.req.KeepAlive())
}
