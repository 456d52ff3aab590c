package exchange

import (
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// StepResult tells how an exchange stands after a Step: either it is Ongoing, or it has
// ended in one of the ways below. The downstream side uses the StepResult to finish the
// response.
type StepResult uint8

// The results of a step.
const (
	// Ongoing: the exchange needs another step.
	Ongoing StepResult = iota
	// Completed: the response has been sent completely.
	Completed
	// Rejected: no byte of a final response has been sent. Send the local reply of the
	// outcome.
	Rejected
	// CutOff: part of the response has been sent. Make the truncation visible to the
	// client.
	CutOff
	// Closed: the client has disconnected or the tunnel has ended. Send nothing.
	Closed
)

// retryPauses are the delays before each retry. Their number limits the retries.
var retryPauses = [...]int64{int64(time.Millisecond), 5 * int64(time.Millisecond), 25 * int64(time.Millisecond)}

const maxRetries = uint8(len(retryPauses))

// retryPause returns the delay before the next retry. Up to 50 % jitter spreads the
// retries of requests that failed together.
func (x *Exchange) retryPause() int64 {
	pause := retryPauses[x.retries]
	return pause + int64(float64(pause)*x.gate.Jitter()/2)
}

// Step advances the exchange without blocking. If r is Ongoing, the caller must call Step
// again by the time next (0 = no deadline). Otherwise the exchange has ended with the
// outcome o.
func (x *Exchange) Step(now int64) (r StepResult, o gate.Outcome, next int64) {
	if x.settings.wait != nil {
		return x.stepWaiting(now)
	}
	return x.step(now)
}

func (x *Exchange) step(now int64) (r StepResult, o gate.Outcome, next int64) {
	for {
		switch x.state {
		case StateArrived, StateQueued:
			switch {
			case x.down.Disconnected():
				o = gate.ClientGone
			case x.state == StateArrived:
				o = x.enqueue()
			default:
				o = x.queued(now)
			}
			if o == gate.Undecided && x.state == StateQueued {
				return Ongoing, o, x.queueDeadline(now)
			}
		case StateConnecting:
			if next, o = x.connect(now); o == gate.Undecided && x.state == StateConnecting {
				return Ongoing, o, gate.Earliest(gate.Earliest(next, x.timeouts.NextDeadline()), x.ticket.StartBy)
			}
		case StateAbandoned:
			if x.isEvicted() && x.pendingOutcome != gate.Evicted { // evicted after a disconnect
				x.pendingOutcome = gate.Evicted
				x.up.HangUp(true)
			}
			if !x.discardRest(now) {
				return Ongoing, gate.Undecided, x.timeouts.NextDeadline()
			}
			o = x.finalOutcome()
		default:
			o, next = x.relay(now)
			if o == gate.Undecided && x.state != StateConnecting && x.state != StateAbandoned {
				return Ongoing, o, next
			}
		}
		if o != gate.Undecided {
			return x.conclude(o), o, 0
		}
	}
}

func (x *Exchange) connect(now int64) (next int64, o gate.Outcome) {
	if x.down.Disconnected() {
		return 0, gate.ClientGone
	}
	if o := x.expired(now); o != gate.Undecided {
		return 0, o
	}
	if x.ticket.IsLate(now) {
		return 0, gate.DeadlineExceeded
	}
	if now < x.retryAt {
		return x.retryAt, gate.Undecided
	}
	if s := x.gate.Standby; s != nil && !s.Running() {
		if isSuspended, o := x.gate.Connects.queueIfSuspended(x); isSuspended {
			return 0, o
		}
	}
	up, next, o := x.connector.Connect(x, now, x.retries > 0)
	if up == nil {
		return next, o
	}
	if x.Dial.First == 0 {
		x.Dial.First = x.Dial.Via
	}
	x.Dial.cancel(x)
	x.up = up
	x.to(StateAwaiting)
	if x.down.ExpectsContinue() && x.retries == 0 {
		x.expects.begin(now)
	}
	req, peer := x.down.Request()
	if up.Send(req, peer, x.down) && x.Forwarded == 0 {
		x.stamp(&x.Forwarded)
	}
	return 0, gate.Undecided
}

// relay moves bytes in both directions until none can be moved without blocking.
func (x *Exchange) relay(now int64) (o gate.Outcome, next int64) {
	for iteration := 0; ; iteration++ {
		if x.down.Disconnected() && x.state != StateTunnelling {
			return x.disconnected()
		}
		moved := x.down.Pump(x.up)
		if v := x.settings.overload; v != nil {
			if moved && x.state == StateAwaiting {
				x.stamp(&x.tracked.uploaded)
			}
			if x.tracked.uploads && x.down.Ended() {
				v.endUpload(x)
			}
		}
		if x.Forwarded == 0 && x.up.Sent() {
			x.stamp(&x.Forwarded)
		}
		if x.down.Failed() && x.state != StateTunnelling {
			if x.down.Malformed() {
				return gate.BadRequest, 0
			}
			return x.disconnected()
		}
		switch x.state {
		case StateTunnelling:
			moved = x.up.Pump(x.down) || moved
			if x.tunnelEnded() {
				o = gate.Tunnelled
			}
		case StateResponding:
			moved = x.up.Pump(x.responseSink()) || moved
			o = x.responseOutcome()
		default:
			var received bool
			received, o = x.awaitResponse(now)
			moved = moved || received
		}
		if o == gate.ClientGone {
			return x.disconnected()
		}
		if o != gate.Undecided || x.state == StateConnecting {
			return o, 0
		}
		if moved {
			x.timeouts.NoteActivity(now)
		}
		if o := x.expired(now); o != gate.Undecided {
			switch {
			case x.state == StateResponding && x.delivered():
				o = gate.Served // the client already has the whole response
			case o == gate.Evicted && x.keepSlot(o):
				o = gate.Undecided
			}
			return o, 0
		}
		if x.down.Closing() {
			return x.disconnected()
		}
		switch {
		case !moved && x.expects.due(now):
			x.expects.end()
			x.down.Continue()
			x.down.Flush()
		case !moved:
			if x.releaseSlot() {
				x.timeouts.NoteActivity(now)
			}
			return gate.Undecided, gate.Earliest(x.timeouts.NextDeadline(), x.expects.continueAt())
		case iteration == relayQuota:
			x.Wake() // let other exchanges run before the next step
			return gate.Undecided, x.timeouts.NextDeadline()
		}
	}
}

// relayQuota is the number of relay iterations per step. It keeps one exchange from
// starving the loop.
const relayQuota = 2

// awaitResponse reads response heads until the final one, and forwards interim responses.
func (x *Exchange) awaitResponse(now int64) (moved bool, o gate.Outcome) {
	if x.expects.waiting() && x.down.Consumed() > 0 {
		x.expects.end() // the client sends the body without waiting for a 100
	}
	for {
		m, empty := x.down.Flush()
		moved = moved || m
		switch {
		case x.down.Broken():
			return moved, gate.ClientGone
		case !empty && x.interims:
			return moved, gate.Undecided // buffer at most one interim response
		}
		state, failure := x.up.Receive()
		switch state {
		case HeadAwaited:
			return moved, gate.Undecided
		case HeadPartial:
			moved = true
		case HeadFailed:
			return true, x.failed(failure, now)
		case HeadInterim:
			moved = true
			x.timeouts.ResponseStarted()
			x.interims = true
			x.interim()
		case HeadFinal:
			x.timeouts.ResponseStarted()
			if o := x.checkPromise(x.up.Response()); o != gate.Undecided {
				return true, o
			}
			x.to(StateResponding)
			x.stamp(&x.Responded)
			if x.settings.overload != nil {
				x.tracked.early = !x.down.Ended()
			}
			x.Status = x.up.Status()
			x.expects.responseStarted()
			x.beginEvents(x.up.Response())
			x.down.Respond(x.up.Response())
			x.up.Pump(x.responseSink())
			return true, x.responseOutcome()
		case HeadSwitched:
			if !x.down.Ended() || !x.down.Upgrades(x.up.Response()) {
				return true, gate.UpstreamMalformed
			}
			x.switchProtocols(now)
			return true, gate.Undecided
		}
	}
}

// failed decides whether to retry a request whose connection ended without a final
// response. A request is retried at most three times, and only while all body bytes read
// so far are in the replay buffer. It is retried in these cases:
//
//   - The container reported that it did not process the request.
//   - The connection was reused, no byte of the request was sent on it, and no byte of a
//     response arrived.
//   - The connection was reused, no byte of a response arrived, and the request is
//     repeatable. A request is repeatable if it is idempotent (RFC 9110 section 9.2.2),
//     was not retried before, and its whole body is in the replay buffer.
//   - The container may not support the protocol of the connection, no byte of a response
//     arrived, and the request is repeatable.
//
// A request changes to the other protocol at most once. If the container may not support
// the protocol, but the request is not retried, the gate opens one more connection. This
// connection only detects the protocol for later requests. The request itself ends with
// the outcome cause.
func (x *Exchange) failed(cause gate.Outcome, now int64) gate.Outcome {
	if x.retries == 0 && !x.up.Sent() {
		x.Forwarded = 0
	}
	d := &x.Dial
	mismatch := x.up.ProtocolMismatch()
	retry := false
	switch {
	case cause == gate.HeadTooLarge: // a retry would fail too
	case mismatch && d.Switched, x.retries >= maxRetries:
	case x.up.Unprocessed():
		retry = x.down.Rewind(false)
	case x.up.Reused() && !x.up.Sent() && !x.up.ResponseBegan():
		retry = x.down.Rewind(false)
	case (x.up.Reused() || mismatch) && x.retries == 0 && !x.up.ResponseBegan():
		retry = x.down.Idempotent() && x.down.Rewind(true)
	}
	detects := mismatch && !retry && !d.Switched
	switch {
	case retry:
	case x.down.CheckDisconnected():
		return gate.ClientGone // disconnected, although the loop has not reported it yet
	case !detects:
		return cause
	}
	d.Switched = d.Switched || mismatch
	d.Detects, d.LastFailure = detects, cause
	if retry {
		x.gate.Retries.Inc()
		x.retryAt = now + x.retryPause()
		x.retries++
		x.GRPC = 0
	}
	x.up.Abort()
	x.up = nil
	x.to(StateConnecting)
	return gate.Undecided
}

// interim forwards a 1xx response. A second 100 is dropped while the client has not begun
// to send the body.
func (x *Exchange) interim() {
	if x.up.Status() == 100 {
		waited := x.expects.waiting()
		x.expects.end()
		if x.down.ExpectsContinue() && !waited {
			return
		}
	}
	x.down.Interim(x.up.Response())
}

// responseOutcome returns the outcome once the response has been sent and the upload has
// ended; until then Undecided.
func (x *Exchange) responseOutcome() gate.Outcome {
	if v := x.settings.overload; v != nil && v.service != nil && x.up.Consumed() > 0 {
		v.addFirstByte(x)
	}
	switch {
	case x.down.Broken():
		return gate.ClientGone
	case x.up.Failed():
		return gate.UpstreamBrokeOff
	case !x.up.Ended():
		return gate.Undecided
	}
	if _, empty := x.down.Flush(); !empty || !x.uploadEnded() {
		return gate.Undecided
	}
	return gate.Served
}

// uploadEnded reports whether no more of the request body will be sent: the container has
// received all of it or accepts no more.
func (x *Exchange) uploadEnded() bool {
	_, sent := x.up.Flush()
	return x.down.Ended() && sent || x.expects.waiting() || x.up.Broken() || x.up.StoppedReading()
}

// limited reports whether x should release its slot before the client has read the whole
// response. It returns true if x has a slot, admission is limited and at least half of
// the memory for bodies is free. Without a limit, no request waits for the slot of x. The
// memory is necessary because the rest of the response must be buffered.
func (x *Exchange) limited() bool {
	return x.ticket.Slot && x.slots().Scarce() && x.gate.Bodies.Used() <= x.gate.Bodies.Limit()/2
}

// releaseSlot reads the rest of the response into buffers and then releases the slot, so
// that clients that read slowly do not hold all slots. It does nothing while limited is
// false or the upload has not ended. The result moved reports whether bytes were read.
func (x *Exchange) releaseSlot() (moved bool) {
	if x.state != StateResponding || !x.limited() || !x.uploadEnded() {
		return false
	}
	moved, complete := x.up.ReadAhead()
	if !complete {
		return moved
	}
	x.stamp(&x.Ended)
	if v := x.settings.overload; v != nil && !x.Unlimited {
		v.addSample(x, gate.Served)
	}
	x.ticket.Release(x.slots())
	x.settings.overload.endUpload(x)
	x.settings.overload.endFlight(x)
	if m := x.gate.load; m.metering() && !x.Unlimited {
		m.moved(int64(x.Ended))
	}
	return moved
}

func (x *Exchange) switchProtocols(now int64) {
	x.to(StateTunnelling)
	x.stamp(&x.Responded)
	x.Status = 101
	x.gate.Drain.EnterTunnel()
	x.timeouts.BeginTunnel(now, x.settings.TunnelMax)
	x.settings.overload.endFlight(x)
	x.down.Switch(x.up.Response())
}

// disconnected ends an exchange whose client has disconnected, or begins to hold its
// slot.
func (x *Exchange) disconnected() (o gate.Outcome, next int64) {
	x.down.Drop()
	if !x.keepSlot(gate.ClientGone) {
		return gate.ClientGone, 0
	}
	return gate.Undecided, 0 // the request can still be evicted, because it holds its slot
}

// keepSlot keeps the slot of a request that would end with the outcome o. The slot is
// kept until the container has finished with the request, or until the request timeout
// expires. Meanwhile no other request gets the slot, so the container does not work on
// more requests than the limit allows.
//
// If keepSlot returns false, the slot is not kept, for one of these reasons:
// HardConcurrency is not set, no byte of the request was sent, the exchange is a tunnel,
// or the exchange does not use a regular slot.
func (x *Exchange) keepSlot(o gate.Outcome) bool {
	if !x.gate.HardConcurrency || x.state == StateTunnelling || !x.ticket.Slot || x.Unlimited || !x.up.Sent() {
		return false
	}
	if x.state == StateResponding {
		x.Status = x.up.Status()
	}
	x.pendingOutcome, x.received = o, x.state == StateResponding
	x.to(StateAbandoned)
	x.up.HangUp(o == gate.Evicted)
	x.timeouts.KeepRequestDeadline()
	return true
}

// finalOutcome returns the outcome of an exchange whose slot was kept by the method
// keepSlot. If the client has disconnected, the outcome is ClientGone. Otherwise it is
// the outcome that was passed to keepSlot, or Evicted if the request was evicted
// afterwards.
func (x *Exchange) finalOutcome() gate.Outcome {
	if x.down.Disconnected() {
		return gate.ClientGone
	}
	return x.pendingOutcome
}

// discardRest discards the response. It reports whether the slot may be released.
func (x *Exchange) discardRest(now int64) bool {
	for !x.received {
		switch state, _ := x.up.Receive(); state {
		case HeadAwaited:
			return x.timeouts.Expired(now) != gate.Undecided || x.down.Closing()
		case HeadFinal:
			x.received = true
		case HeadSwitched, HeadFailed:
			return true
		}
	}
	for x.up.Pump(discard{}) && !x.up.Ended() && !x.up.Failed() {
	}
	return x.timeouts.Expired(now) != gate.Undecided || x.down.Closing() || x.up.Ended() || x.up.Failed()
}

type discard struct{}

func (discard) Write(p []byte) int  { return len(p) }
func (discard) Capacity() int       { return math.MaxInt }
func (discard) Finish([]byte)       {}
func (discard) Flush() (bool, bool) { return false, true }
func (discard) Broken() bool        { return false }

// conclude ends the exchange and releases the upstream connection. It returns how the
// downstream side must finish.
func (x *Exchange) conclude(o gate.Outcome) (r StepResult) {
	switch up := x.up; {
	case up == nil && o == gate.ClientGone:
		x.down.Drop()
		r = Closed
	case up == nil:
		r = Rejected
	default:
		x.RequestBody, x.ResponseBody = x.down.Consumed(), up.Consumed()
		x.up = nil
		switch {
		case o == gate.Served:
			_, sent := up.Flush()
			up.Complete(!x.down.Ended() || !sent)
			r = Completed
		case o == gate.Tunnelled, o == gate.ClientGone:
			up.Abort()
			r = Closed
		case x.state == StateAwaiting, x.state == StateAbandoned && (x.Status == 0 || x.promised()):
			up.Abort()
			r = Rejected
		default:
			if o == gate.Evicted {
				x.tracked.events.abort()
			}
			up.Abort()
			r = CutOff
		}
	}
	if r == Rejected {
		r = x.breakPromise(o)
	}
	x.End(o)
	return r
}
