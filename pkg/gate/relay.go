package gate

import "math"

// Ending is what is left to do for the side that speaks to the client.
type Ending uint8

// The endings of a step.
const (
	Going     Ending = iota // the exchange goes on
	Completed               // the answer has been delivered whole
	Rejected                // nothing of a final answer has gone out: the outcome's reply is due
	CutOff                  // some of the answer has gone out: the client must see that it is not all
	Over                    // nothing can be said any more: the client has left, or the tunnel has ended
)

// maxTries bounds how often a request is sent that the container has not
// processed, by its own word or because nothing of it went out.
const maxTries = 32

// Step takes the exchange as far as it goes now. It returns when the next step
// is due at the latest (0 = no bound), and with any Ending but Going that the
// exchange is over: End has been called, with the Outcome that is returned.
func (x *Exchange) Step(now int64) (e Ending, o Outcome, next int64) {
	for {
		var done bool
		switch x.state {
		case StateArrived, StateQueued:
			switch {
			case x.client.Gone():
				o, done = ClientGone, true
			case x.state == StateArrived:
				o, done = x.enqueue()
			default:
				o, done = x.queued(now)
			}
			if !done && x.state == StateQueued {
				return Going, Served, Earliest(x.clocks.Next(), x.claim.next())
			}
		case StateConnecting:
			if next, o, done = x.connect(now); !done && x.state == StateConnecting {
				return Going, Served, Earliest(Earliest(next, x.clocks.Next()), x.claim.begunBy)
			}
		case StateAbandoned:
			if !x.discardRest(now) {
				return Going, Served, x.clocks.Next()
			}
			o, done = ClientGone, true
		default:
			o, next, done = x.relay(now)
			if !done && x.state != StateConnecting && x.state != StateAbandoned {
				return Going, Served, next
			}
		}
		if done {
			return x.conclude(o), o, 0
		}
	}
}

// connect gets a connection and begins the request on it.
func (x *Exchange) connect(now int64) (next int64, o Outcome, done bool) {
	if x.client.Gone() {
		return 0, ClientGone, true
	}
	if o, expired := x.clocks.Expired(now); expired {
		return 0, o, true
	}
	if x.claim.late(now) {
		return 0, DeadlineExceeded, true
	}
	up, next, o, failed := x.connector.Connect(x, now, x.replayed)
	if up == nil {
		return next, o, failed
	}
	x.Dial.leave(x)
	x.up = up
	x.to(StateAwaiting)
	if x.client.Expects() && !x.replayed {
		x.expects.begin(now)
	}
	if up.Send(x.client) && x.Forwarded == 0 {
		x.stamp(&x.Forwarded)
	}
	return 0, Served, false
}

// relay moves bytes in both directions until nothing more can be moved now.
func (x *Exchange) relay(now int64) (o Outcome, next int64, done bool) {
	for turn := 0; ; turn++ {
		if x.client.Gone() && x.state != StateTunnelling {
			return x.left()
		}
		moved := x.client.Pump(x.up)
		if x.Forwarded == 0 && x.up.Sent() {
			x.stamp(&x.Forwarded)
		}
		if x.client.Failed() && x.state != StateTunnelling {
			if x.client.Malformed() {
				return BadRequest, 0, true
			}
			return x.left()
		}
		switch x.state {
		case StateTunnelling:
			moved = x.up.Pump(x.client) || moved
			o, done = Tunnelled, x.tunnelOver()
		case StateAnswering:
			moved = x.up.Pump(x.client) || moved
			o, done = x.answerOver()
		default:
			var received bool
			received, o, done = x.awaitAnswer(now)
			moved = moved || received
		}
		if done && o == ClientGone {
			return x.left()
		}
		if done || x.state == StateConnecting {
			return o, 0, done
		}
		if moved {
			x.clocks.Moved(now)
		}
		if o, expired := x.clocks.Expired(now); expired {
			if x.state == StateAnswering && x.delivered() {
				o = Served // nothing is missing at the client's end
			}
			return o, 0, true
		}
		if x.client.Closing() {
			return x.left()
		}
		switch {
		case !moved && x.expects.due(now):
			x.expects.end()
			x.client.Continue()
			x.client.Flush()
		case !moved:
			return Served, Earliest(x.clocks.Next(), x.expects.continues), false
		case turn == relayTurns:
			x.Wake() // the loop's other exchanges go first
			return Served, x.clocks.Next(), false
		}
	}
}

// relayTurns bounds how often a step moves bytes before the loop's other
// exchanges have their turn.
const relayTurns = 2

// awaitAnswer reads heads until the final one, and hands interim answers on.
func (x *Exchange) awaitAnswer(now int64) (moved bool, o Outcome, done bool) {
	if x.expects.awaited && x.client.Taken() > 0 {
		x.expects.end() // the client has not waited
	}
	for {
		m, empty := x.client.Flush()
		moved = moved || m
		switch {
		case x.client.Broken():
			return moved, ClientGone, true
		case !empty:
			return moved, Served, false // of interim answers only one waits
		}
		state, failure := x.up.Receive()
		switch state {
		case HeadAwaited:
			return moved, Served, false
		case HeadPartial:
			moved = true
		case HeadFailed:
			o, done = x.failed(failure)
			return true, o, done
		case HeadInterim:
			moved = true
			x.clocks.Started()
			x.interim()
		case HeadFinal:
			x.clocks.Started()
			x.to(StateAnswering)
			x.stamp(&x.Answered)
			x.Status = x.up.Status()
			x.expects.continues = 0
			x.client.Answer(x.up)
			x.up.Pump(x.client)
			o, done = x.answerOver()
			return true, o, done
		case HeadSwitched:
			if !x.client.Ended() || !x.client.Upgrades(x.up) {
				return true, UpstreamMalformed, true
			}
			x.switchProtocols(now)
			return true, Served, false
		}
	}
}

// failed decides what becomes of a request whose connection has ended without
// an answer. What the container says it has not processed is sent again. So is
// what was to go out on a connection that has been used before, and may have
// been closed while the request was on its way: any request if nothing of it
// was sent, and once an idempotent one that is still there to its end (RFC 9110
// section 9.2.2).
func (x *Exchange) failed(why Outcome) (o Outcome, done bool) {
	if x.tries == 0 && !x.up.Sent() {
		x.Forwarded = 0
	}
	again := false
	switch {
	case x.up.Unprocessed() && x.tries < maxTries:
		again = x.client.Rewind(false)
	case x.up.Reused() && !x.up.Sent() && !x.up.Heard() && x.tries < maxTries:
		again = x.client.Rewind(false) // another kept connection has ended with the last one
	case x.up.Reused() && !x.replayed && !x.up.Heard():
		again = x.client.Idempotent() && x.client.Rewind(true)
	}
	if again {
		x.gate.Replays.Inc()
		x.tries++
		x.replayed = true
		x.up.Abort()
		x.up = nil
		x.to(StateConnecting)
		return Served, false
	}
	if x.client.CheckGone() {
		return ClientGone, true // both have left; news of the client is in the same batch
	}
	return why, true
}

// interim hands on a 1xx. A 100 that the client has had, or has not waited
// for, goes no further.
func (x *Exchange) interim() {
	if x.up.Status() == 100 {
		waited := x.expects.awaited
		x.expects.end()
		if x.client.Expects() && !waited {
			return
		}
	}
	x.client.Interim(x.up)
}

// answerOver tells how an answer ends, once it does: when all of it has gone
// out and the upload has ended too, one way or the other.
func (x *Exchange) answerOver() (o Outcome, done bool) {
	switch {
	case x.client.Broken():
		return ClientGone, true
	case x.up.Failed():
		return UpstreamBrokeOff, true
	case !x.up.Ended():
		return Served, false
	}
	if _, empty := x.client.Flush(); !empty {
		return Served, false
	}
	_, sent := x.up.Flush()
	return Served, x.client.Ended() && sent || x.expects.awaited || x.up.Broken() || x.up.Unwilling()
}

// switchProtocols turns the exchange into a tunnel after a 101.
func (x *Exchange) switchProtocols(now int64) {
	x.to(StateTunnelling)
	x.stamp(&x.Answered)
	x.Status = 101
	x.gate.Drain.EnterTunnel()
	x.clocks.Switched(now, x.gate.TunnelMax)
	x.client.Switch(x.up)
}

// left ends an exchange whose client has left. With a hard limit the slot is
// held until the container has finished its answer or closed its connection,
// so that it never works on more requests than the limit says.
func (x *Exchange) left() (o Outcome, next int64, done bool) {
	x.client.Drop()
	if !x.gate.HardConcurrency || x.state == StateTunnelling || !x.up.Sent() {
		return ClientGone, 0, true
	}
	if x.state == StateAnswering {
		x.Status = x.up.Status()
	}
	x.received = x.state == StateAnswering
	x.to(StateAbandoned)
	x.up.HangUp()
	x.clocks.KeepRequest()
	return Served, 0, false
}

// discardRest passes over what is left of the answer. It reports whether that has
// ended.
func (x *Exchange) discardRest(now int64) bool {
	for !x.received {
		switch state, _ := x.up.Receive(); state {
		case HeadAwaited:
			_, expired := x.clocks.Expired(now)
			return expired || x.client.Closing()
		case HeadFinal:
			x.received = true
		case HeadSwitched, HeadFailed:
			return true
		}
	}
	for x.up.Pump(discard{}) && !x.up.Ended() && !x.up.Failed() {
	}
	_, expired := x.clocks.Expired(now)
	return expired || x.client.Closing() || x.up.Ended() || x.up.Failed()
}

// discard is the Sink that takes everything.
type discard struct{}

func (discard) Put(p []byte) int    { return len(p) }
func (discard) Room() int           { return math.MaxInt }
func (discard) Finish([]byte)       {}
func (discard) Flush() (bool, bool) { return false, true }
func (discard) Broken() bool        { return false }

// conclude ends the exchange, gives up the connection to the container, and
// tells what is left to do for the client's side.
func (x *Exchange) conclude(o Outcome) (e Ending) {
	switch up := x.up; {
	case up == nil && o == ClientGone:
		x.client.Drop()
		e = Over
	case up == nil:
		e = Rejected
	default:
		x.RequestBody, x.ResponseBody = x.client.Taken(), up.Taken()
		x.up = nil
		switch {
		case o == Served:
			_, sent := up.Flush()
			up.Complete(!x.client.Ended() || !sent)
			e = Completed
		case o == Tunnelled, o == ClientGone:
			up.Abort()
			e = Over
		case x.state == StateAwaiting:
			up.Abort()
			e = Rejected
		default:
			up.Abort()
			e = CutOff
		}
	}
	x.End(o)
	return e
}
