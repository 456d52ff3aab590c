package http1

import (
	"errors"
	"io"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// answerState looks at an answer that is under way: it is over when all of it
// has gone out and the upload has ended too, one way or the other.
func (w *worker) answerState() (gate.Outcome, bool) {
	d, u := &w.download, &w.upload
	switch {
	case d.dstErr != nil:
		return gate.ClientGone, true
	case d.srcErr != nil:
		return gate.UpstreamBrokeOff, true
	case !d.done:
		return gate.Served, false
	case u.done:
		return gate.Served, true
	case u.dstErr != nil || w.up.sock.HungUp() || w.up.sock.Failed() || w.passage.awaited:
		return gate.Served, true // the container does not want the rest
	}
	return gate.Served, false
}

// awaitAnswer reads the answer's head, passing interim answers on.
func (w *worker) awaitAnswer() (moved bool, outcome gate.Outcome, over bool) {
	if w.passage.awaited && w.upload.payload > 0 {
		w.passage.awaited, w.passage.expect = false, 0 // the client did not wait
	}
	m, empty := w.download.flush()
	if w.download.dstErr != nil {
		return true, gate.ClientGone, true
	}
	if !empty {
		return m, gate.Served, false
	}
	if !w.up.sock.Readable() {
		return m, gate.Served, false
	}
	n, err := w.up.sock.Read(w.answerRoom())
	switch {
	case err == loop.ErrAgain:
		return m, gate.Served, false
	case err != nil:
		return true, w.upstreamEnded(err), true
	}
	w.uw += n
	w.passage.began = true
	outcome, over = w.readAnswer()
	return true, outcome, over
}

// upstreamEnded decides what the end of the container's connection means when
// no answer has come. A connection from the pool may have been closed while
// the request was on its way: then an idempotent request that is still whole
// is sent again, once, and any other only if none of it was sent (RFC 9110
// section 9.2.2).
func (w *worker) upstreamEnded(err error) gate.Outcome {
	if w.up.reused && !w.passage.began {
		w.srv.idleAge.Ended(time.Duration(w.up.age))
		if !w.passage.replayed && (w.upload.written == 0 && !w.up.sock.Begun() || w.again()) {
			return replay
		}
	}
	if !w.gate.AnswerHalfClosed && w.conn.sock.Ended() {
		return gate.ClientGone // both have left; news of the client is in the same batch
	}
	if errors.Is(err, io.EOF) {
		return gate.UpstreamClosed
	}
	return gate.UpstreamReset
}

// again reports whether the request may be sent a second time, and could be.
func (w *worker) again() bool { return w.passage.whole && w.req.Idempotent() }

// readAnswer evaluates the heads that stand in uin.
func (w *worker) readAnswer() (gate.Outcome, bool) {
	r := &w.res
	for w.uw > 0 {
		complete, err := r.ScanAnswer(w.uin[:w.uw])
		if complete && err == nil {
			err = r.Decide(w.req.Method)
		}
		if err != nil {
			return gate.UpstreamMalformed, true
		}
		if !complete {
			return gate.Served, false
		}
		w.clocks.Started()
		w.up.spent = w.up.spent || r.AnnouncesBody()
		switch {
		case r.Status == 101:
			return w.switchProtocols()
		case r.Status >= 200:
			w.passOn()
			w.download.step(&w.eng.bulks)
			return w.answerState()
		}
		w.passInterim()
	}
	return gate.Served, false
}

// passInterim hands a 1xx answer to the client, if its version knows them.
func (w *worker) passInterim() {
	said := w.passage.awaited || w.passage.expect != 0
	if w.res.Status == 100 {
		w.passage.awaited, w.passage.expect = false, 0
		if w.req.Expect && !said {
			w.takeHead() // the gate, or the client itself, was quicker
			return
		}
	}
	if w.req.Minor > 0 {
		w.appendToPeer(func(dst []byte) []byte {
			return w.res.AppendHead(dst, wire.Framing{Interim: true}, nil)
		})
	}
	w.takeHead()
}

// appendToPeer adds to what waits to be written to the client.
func (w *worker) appendToPeer(more func([]byte) []byte) {
	d := &w.download
	pending := append(w.toPeer[:0], d.out[d.o:]...)
	w.toPeer = more(pending)
	d.out, d.o, d.frame = w.toPeer, 0, w.toPeer
}

// takeHead removes the head that has been dealt with from uin.
func (w *worker) takeHead() {
	w.uw = copy(w.uin, w.uin[w.res.Size():w.uw])
	w.res.Reset()
}

// sayContinue asks the client for its body in the place of a silent container.
func (w *worker) sayContinue() {
	w.passage.awaited, w.passage.expect = false, 0
	w.appendToPeer(func(dst []byte) []byte { return append(dst, "HTTP/1.1 100 Continue\r\n\r\n"...) })
}

// passOn starts the final answer's way to the client.
func (w *worker) passOn() {
	r, d := &w.res, &w.download
	w.passage.answered = true
	w.stamp(&w.exchange.Answered)
	w.exchange.Status = r.Status

	chunked := r.Body == wire.BodyChunked || r.Body == wire.BodyUntilClose
	delimited := !chunked || w.req.Minor > 0
	w.passage.expect = 0
	// Of an upload that goes on nobody knows whether it will be read to its end,
	// and a client that does not hear of the close would lose its next request.
	w.passage.keep = w.req.KeepAlive() && delimited && w.upload.read() && !w.gate.Drain.Active()
	f := wire.Framing{Chunked: chunked && w.req.Minor > 0, Close: !w.passage.keep, KeepAlive: w.req.Minor == 0}
	w.appendToPeer(func(dst []byte) []byte { return r.AppendHead(dst, f, w.eng.appendDate) })

	head := r.Size()
	d.buf, d.r, d.w = w.uin, head, w.uw
	d.body.Begin(r.Body, r.Length)
	d.chunked, d.trailers = f.Chunked, w.req.Minor > 0
	d.preload()
	w.toPeer = d.frame
}
