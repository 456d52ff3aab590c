package http1

import (
	"errors"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
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
		giveUp = w.clocks.Arrived + int64(d)
	}
	for !w.waiter.Admitted() {
		outcome := w.clocks.Expired(w.now())
		switch {
		case w.conn.gone() || w.eng.loop.Closing():
			outcome = gate.ClientGone
		case outcome == gate.Served && giveUp != 0 && w.now() >= giveUp:
			outcome = gate.QueueWaitExpired
		}
		if outcome == gate.Served {
			w.task.Wait(gate.Earliest(w.clocks.Next(), giveUp))
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
		w.download.body.Begin(wire.BodyUntilClose, 0)
		w.uw = 0
		w.res.Reset()
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
	w.toUser = w.req.AppendHead(w.toUser[:0], w.conn.peer.Addr(), w.srv.host)
	u := &w.upload
	u.begin(&w.conn.sock, nil, w.toUser, w.in, w.r, w.w)
	u.body.Begin(w.req.Body, w.req.Length)
	u.chunked, u.trailers, u.limit = w.req.Body == wire.BodyChunked, true, w.req.Body == wire.BodyLength
	if w.req.Expect && w.r == w.w {
		w.passage.awaited = true
		w.passage.expect = w.now() + expectPatience
	}
	u.preload()
	w.passage.whole = u.body.Ended
	w.toUser = u.frame
}

// relay moves bytes in both directions until the exchange ends.
func (w *worker) relay() gate.Outcome {
	for {
		if w.conn.gone() && !w.passage.tunnel {
			return gate.ClientGone
		}
		moved := w.upload.step(&w.eng.bulks)
		if w.exchange.Forwarded == 0 && w.upload.written > 0 {
			w.stamp(&w.exchange.Forwarded)
		}
		if err := w.upload.srcErr; err != nil && !w.passage.tunnel {
			if errors.Is(err, wire.ErrBadBody) {
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
			w.clocks.Moved(now)
		}
		if o := w.clocks.Expired(now); o != gate.Served {
			if w.download.done && w.upload.read() && !w.passage.tunnel {
				return gate.Served // nothing is missing at the client's end
			}
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
		w.task.Wait(gate.Earliest(w.clocks.Next(), w.passage.expect))
	}
}

// ready reports whether a long transfer could go on at once; then the loop's
// other conversations have their turn first.
func (w *worker) ready() bool {
	return w.passage.answered && w.up.sock.Readable() && w.conn.sock.Writable() ||
		w.conn.sock.Readable() && w.up.sock.Writable() && !w.upload.done
}

// stamp notes an instant for the observer, if there is one.
func (w *worker) stamp(at *time.Duration) {
	if w.gate.Observer != nil {
		*at = time.Duration(loop.Nanotime())
	}
}
