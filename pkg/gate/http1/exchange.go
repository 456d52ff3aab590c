package http1

import (
	"errors"
	"io"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// expectPatience is how long a container may be silent about
// `Expect: 100-continue` before the gate asks for the body itself.
const expectPatience = int64(time.Second)

// replay is not an outcome: the exchange is to be tried once more on a fresh
// connection.
const replay = gate.Outcome(255)

// passage is the state of one exchange with the container.
type passage struct {
	composed bool  // the upload knows how far the request has been read
	answered bool  // the final head is on its way to the client
	keep     bool  // the client's connection goes on afterwards
	began    bool  // some byte of an answer has come
	replayed bool  // this is the second try
	whole    bool  // all of the request is in one buffer and can be sent again
	expect   int64 // when the gate says 100 itself; 0 = never, or it has
	awaited  bool  // the client waits for a 100 that nobody has sent
	tunnel   bool

	upEnded, downEnded bool // of a tunnel: that direction's end has been passed on
}

// traffic serves a request that is not a probe.
func (w *worker) traffic() bool {
	w.begin()
	if outcome := w.admit(); outcome != gate.Served {
		return w.refuse(outcome)
	}
	w.slot = true
	return w.forward()
}

// admit takes a slot or waits in the queue for one.
func (w *worker) admit() gate.Outcome {
	if w.conn.gone() {
		return gate.ClientGone
	}
	switch w.gate.Admission.Begin(&w.waiter) {
	case gate.Refused:
		return gate.QueueFull
	case gate.Queued:
		if outcome := w.queue(); outcome != gate.Served {
			return outcome
		}
	}
	w.stamp(&w.exchange.Admitted)
	return gate.Served
}

// queue waits until the head of the queue gets a slot. A client that leaves
// frees its place at once.
func (w *worker) queue() gate.Outcome {
	var giveUp int64
	if d := w.gate.QueueMaxWait; d > 0 {
		giveUp = w.clocks.arrived + int64(d)
	}
	for !w.waiter.Admitted() {
		outcome := w.clocks.expired(w.now())
		switch {
		case w.conn.gone() || w.eng.loop.Closing():
			outcome = gate.ClientGone
		case outcome == gate.Served && giveUp != 0 && w.now() >= giveUp:
			outcome = gate.QueueWaitExpired
		}
		if outcome == gate.Served {
			w.task.Wait(earliest(w.clocks.next(), giveUp))
			continue
		}
		if w.gate.Admission.Withdraw(&w.waiter) {
			return outcome
		}
		w.slot = true // admitted a moment ago; end gives it back
		return outcome
	}
	if w.conn.gone() {
		w.slot = true
		return gate.ClientGone
	}
	return gate.Served
}

// forward sends the request to the container and the answer to the client.
func (w *worker) forward() bool {
	w.compose()
	if w.upload.srcErr != nil {
		return w.refuse(gate.BadRequest) // its body is broken within what has been read
	}
	outcome := replay
	for outcome == replay {
		up, why := w.connect(w.passage.replayed)
		if up == nil {
			return w.refuse(why)
		}
		w.up = up
		w.upload.dst, w.upload.dstErr = &up.sock, nil
		w.download.begin(&up.sock, &w.conn.sock, w.toPeer[:0], nil, 0, 0)
		w.uw = 0
		w.res.reset()
		if outcome = w.relay(); outcome == replay {
			w.srv.replays.Inc()
			w.passage.replayed = true
			w.upload.out, w.upload.o, w.upload.written, w.upload.done = w.upload.frame, 0, 0, false
			w.dropUpstream()
		}
	}
	return w.conclude(outcome)
}

// compose writes the head for the container, and behind it what of the body
// has been read already.
func (w *worker) compose() {
	w.passage.composed = true
	w.toUser = w.req.appendHead(w.toUser[:0], w.conn.peer, w.srv.host)
	u := &w.upload
	u.begin(&w.conn.sock, nil, w.toUser, w.in, w.r, w.w)
	u.body.begin(w.req.body, w.req.length)
	u.chunked, u.trailers, u.limit = w.req.body == bodyChunked, true, w.req.body == bodyLength
	if w.req.expect && w.r == w.w {
		w.passage.awaited = true
		w.passage.expect = w.now() + expectPatience
	}
	u.preload()
	w.passage.whole = u.body.ended
	w.toUser = u.frame
}

// relay moves bytes in both directions until the exchange ends.
func (w *worker) relay() gate.Outcome {
	for {
		if w.conn.gone() && !w.passage.tunnel {
			return gate.ClientGone
		}
		moved := w.upload.step(&w.eng.bulks)
		if err := w.upload.srcErr; err != nil && !w.passage.tunnel {
			if errors.Is(err, errBadBody) {
				return gate.BadRequest
			}
			return gate.ClientGone
		}
		var outcome gate.Outcome
		var over bool
		switch {
		case w.passage.tunnel:
			moved, outcome, over = w.stepTunnel(moved)
		case w.passage.answered:
			moved = w.download.step(&w.eng.bulks) || moved
			outcome, over = w.answerState()
		default:
			var m bool
			m, outcome, over = w.awaitAnswer()
			moved = moved || m
		}
		if over {
			return outcome
		}
		now := w.now()
		if moved {
			w.clocks.active = now
		}
		if o := w.clocks.expired(now); o != gate.Served {
			return o
		}
		if w.eng.loop.Closing() {
			return gate.ClientGone
		}
		if moved {
			if w.ready() {
				w.task.Yield()
			}
			continue
		}
		if w.passage.expect != 0 && now >= w.passage.expect {
			w.sayContinue()
			continue
		}
		w.task.Wait(earliest(w.clocks.next(), w.passage.expect))
	}
}

// ready reports whether a long transfer could go on at once; then the loop's
// other conversations have their turn first.
func (w *worker) ready() bool {
	return w.passage.answered && w.up.sock.Readable() && w.conn.sock.Writable() ||
		w.conn.sock.Readable() && w.up.sock.Writable() && !w.upload.done
}

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
		w.passage.keep = false // the container does not want the rest
		return gate.Served, true
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
	if w.uw == len(w.uin) {
		w.uin = grow(w.uin)
	}
	n, err := w.up.sock.Read(w.uin[w.uw:])
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
	if w.up.reused && !w.passage.replayed && !w.passage.began {
		if w.upload.written == 0 || w.passage.whole && w.req.idempotent() {
			return replay
		}
	}
	if errors.Is(err, io.EOF) {
		return gate.UpstreamClosed
	}
	return gate.UpstreamReset
}

// readAnswer evaluates the heads that stand in uin.
func (w *worker) readAnswer() (gate.Outcome, bool) {
	r := &w.res
	for w.uw > 0 {
		complete, err := r.scan(w.uin[:w.uw])
		if complete && err == nil {
			err = r.decide(w.req.method)
		}
		if err != nil {
			return gate.UpstreamMalformed, true
		}
		if !complete {
			return gate.Served, false
		}
		w.clocks.start = 0
		switch {
		case r.status == 101:
			return w.switchProtocols()
		case r.status >= 200:
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
	if w.res.status == 100 {
		w.passage.awaited, w.passage.expect = false, 0
		if w.req.expect && !said {
			w.takeHead() // the gate, or the client itself, was quicker
			return
		}
	}
	if w.req.minor > 0 {
		w.appendToPeer(func(dst []byte) []byte {
			return w.res.appendHead(dst, framing{interim: true}, nil)
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
	w.uw = copy(w.uin, w.uin[len(w.res.raw):w.uw])
	w.res.reset()
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
	w.exchange.Status = r.status

	chunked := r.body == bodyChunked || r.body == bodyUntilClose
	delimited := !chunked || w.req.minor > 0
	w.passage.expect = 0
	w.passage.keep = w.req.keepAlive() && delimited && !w.passage.awaited && !w.gate.Drain.Active()
	f := framing{chunked: chunked && w.req.minor > 0, close: !w.passage.keep, keepAlive: w.req.minor == 0}
	w.appendToPeer(func(dst []byte) []byte { return r.appendHead(dst, f, w.eng.appendDate) })

	head := len(r.raw)
	d.buf, d.r, d.w = w.uin, head, w.uw
	d.body.begin(r.body, r.length)
	d.chunked, d.trailers = f.chunked, w.req.minor > 0
	d.preload()
	w.toPeer = d.frame
}

// conclude ends the exchange and reports whether the client's connection
// goes on.
func (w *worker) conclude(outcome gate.Outcome) bool {
	w.exchange.RequestBody, w.exchange.ResponseBody = w.upload.payload, w.download.payload
	if w.passage.tunnel {
		w.passage.tunnel = false
		w.srv.tunnels.Dec()
	}
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
	case !w.passage.answered && w.download.o == len(w.download.out):
		w.dropUpstream()
		return w.refuse(outcome)
	}
	w.dropUpstream()
	if w.res.body != noBody && !w.download.chunked && w.res.body != bodyLength {
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
	keep := w.passage.keep && u.done
	d.release(&w.eng.bulks, nil)
	w.recoverInput()
	if clean && u.done && w.res.reusable() && !up.sock.HungUp() && !up.sock.Failed() {
		w.eng.up.put(up)
	} else {
		up.close()
	}
	w.end(gate.Served)
	if keep {
		return true
	}
	if u.done && w.r == w.w && w.conn.sock.Quiet() {
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
	u.release(&w.eng.bulks, nil)
}

// refuse answers in the gate's own name, before anything of an answer has
// gone out, and ends the request.
func (w *worker) refuse(outcome gate.Outcome) bool {
	if w.passage.composed {
		whole := w.upload.body.ended
		w.recoverInput()
		w.end(outcome)
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
	a := replyTo(outcome)
	return w.answer(&a, whole && outcome != gate.BadRequest && w.req.keepAlive())
}

// settleHard holds the slot of a request whose client has left until the
// container has closed its connection, so that it never works on more
// requests than the limit says.
func (w *worker) settleHard() {
	if !w.gate.HardConcurrency || w.up == nil || w.upload.written == 0 {
		return
	}
	s := &w.up.sock
	s.CloseWrite()
	for !s.Failed() && !w.eng.loop.Closing() && w.clocks.expired(w.now()) == gate.Served {
		n, err := s.Read(w.uin)
		switch {
		case err == loop.ErrAgain:
			w.task.Wait(w.clocks.next())
		case err != nil:
			return
		case n == len(w.uin):
			w.task.Yield()
		}
	}
}

// stamp notes an instant for the observer, if there is one.
func (w *worker) stamp(at *time.Duration) {
	if w.gate.Observer != nil {
		*at = time.Duration(loop.Nanotime())
	}
}
