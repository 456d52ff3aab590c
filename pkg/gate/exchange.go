package gate

import (
	"fmt"
	"time"
)

// State is where an exchange stands. Its transitions are those of allowed.
type State uint8

// The states of an exchange.
const (
	StateIdle       State = iota // between two requests
	StateArrived                 // the head is complete, admission has not been asked
	StateQueued                  // has a place in the queue
	StateConnecting              // has a slot; held while the container does not listen
	StateAwaiting                // the request is on its way; no final head yet
	StateAnswering               // the final head is on its way to the client
	StateTunnelling              // protocols have been switched
	StateAbandoned               // the client has left; the slot is held until the container is done
)

// allowed has, for each state, those that may follow it, a bit for each. Every
// state but StateIdle may be followed by StateIdle: that is End.
var allowed = [...]uint16{
	StateIdle:       1 << StateArrived,
	StateArrived:    1<<StateQueued | 1<<StateConnecting,
	StateQueued:     1 << StateConnecting,
	StateConnecting: 1 << StateAwaiting,
	StateAwaiting:   1<<StateConnecting | 1<<StateAnswering | 1<<StateTunnelling | 1<<StateAbandoned, // back to connecting: sent again
	StateAnswering:  1 << StateAbandoned,
	StateTunnelling: 0,
	StateAbandoned:  0,
}

// Exchange is one request, from the end of its head to the end of its answer.
// The engine owns it and uses it for one request after the other.
type Exchange struct {
	Record
	sides
	// Dial is what the exchange keeps while it has no connection to the container.
	Dial Dial

	gate      *Gate
	clock     func() int64
	connector Connector
	claim     claim
	clocks    Clocks
	expects   expectation
	state     State
	// Crowd says that it is one of many that its client has begun at once: others
	// go first where an idle connection to the container would be the last one.
	Crowd    bool
	observed bool  // an End is owed to the observer
	replayed bool  // this is another try, on a fresh connection
	tries    uint8 // how often the request has been sent again
	received bool  // while abandoned: the final head has come
}

// Bind says once whose exchanges x tells, on which clock (in ns, above 0), and
// what leads to a step: wake, which may be called from any goroutine, and
// driver, to which a Connector directs the events of its sockets.
func (x *Exchange) Bind(g *Gate, clock func() int64, wake func(), driver any) {
	x.gate, x.clock, x.claim.waiter.Notify, x.Dial.Driver = g, clock, wake, driver
}

// Wake leads to a step. It may be called from any goroutine.
func (x *Exchange) Wake() { x.claim.waiter.Notify() }

// State is where the exchange stands.
func (x *Exchange) State() State { return x.state }

// to is the only way from one state to another.
func (x *Exchange) to(next State) {
	if next != StateIdle && allowed[x.state]>>next&1 == 0 {
		panic(fmt.Sprintf("BUG: an exchange goes from state %d to %d", x.state, next))
	}
	x.state = next
}

// Begin counts the request, starts its clocks and tells the observer. The
// sides are those of this request; a Blocking has none. Arrived is the caller's
// if it is set.
func (x *Exchange) Begin(now int64, client ClientSide, connector Connector) {
	x.to(StateArrived)
	x.client, x.connector = client, connector
	x.replayed, x.tries, x.expects = false, 0, expectation{}
	x.gate.Drain.Enter()
	x.clocks.Begin(x.gate, now)
	if o := x.gate.Observer; o != nil {
		if x.Arrived == 0 {
			x.Arrived = time.Duration(x.clock())
		}
		o.Begin(&x.Record)
		x.observed = true
	}
}

// End gives back what the exchange holds and tells the observer how it ended.
// It is the only way out of Begin.
func (x *Exchange) End(o Outcome) {
	x.stamp(&x.Ended)
	if v := x.gate.overload; v != nil && x.claim.slot {
		v.ended(x, o)
	}
	x.claim.release(x.gate.Admission)
	x.Dial.leave(x)
	if x.state == StateTunnelling {
		x.gate.Drain.LeaveTunnel()
	} else {
		x.gate.Drain.Leave()
	}
	x.to(StateIdle)
	x.client, x.connector = nil, nil
	if x.observed {
		x.observed = false
		x.Outcome = o
		if x.Status == 0 {
			x.Status = o.Meaning().Status
		}
		x.gate.Observer.End(&x.Record)
	}
}

// Abandon ends an exchange in the middle of which a panic was contained.
func (x *Exchange) Abandon() {
	if x.up != nil {
		x.up.Abort()
		x.up = nil
	}
	if x.state != StateIdle {
		x.End(InternalError)
	}
}

// enqueue takes a slot, or a place in the queue.
func (x *Exchange) enqueue() (o Outcome, refused bool) {
	if v := x.gate.overload; v != nil {
		if o, refused := v.arrive(x); refused {
			return o, true
		}
	}
	if x.claim.take(x.gate.Admission) {
		x.admitted(x.Arrived) // nothing has come between: one reading of the clock for both
		return Served, false
	}
	if v := x.gate.overload; v != nil {
		v.turn(x)
	}
	switch x.claim.begin(x.gate.Admission) {
	case Refused:
		return QueueFull, true
	case Queued:
		x.to(StateQueued)
		if d := x.gate.QueueMaxWait; d > 0 {
			x.claim.giveUp = x.clocks.Arrived + int64(d)
		}
	case Admitted: // given back since the first look
		x.admitted(0)
	}
	return Served, false
}

// queued looks whether the place in the queue has become a slot.
func (x *Exchange) queued(now int64) (o Outcome, refused bool) {
	switch {
	case x.claim.late(now):
		return DeadlineExceeded, true
	case x.claim.granted():
		x.admitted(0)
		return Served, false
	case x.claim.waiter.Shed():
		return QueueFull, true
	}
	if o, expired := x.clocks.Expired(now); expired {
		return o, true
	}
	if x.claim.expired(now) {
		return QueueWaitExpired, true
	}
	return Served, false
}

// admitted notes that the exchange holds a slot, since at; 0 = now.
func (x *Exchange) admitted(at time.Duration) {
	x.to(StateConnecting)
	if at == 0 {
		x.stamp(&x.Admitted)
		return
	}
	x.Admitted = at
}

// stamp notes an instant for the observer and for the limit that finds itself,
// if there is either.
func (x *Exchange) stamp(at *time.Duration) {
	if x.observed || x.gate.overload != nil {
		*at = time.Duration(x.clock())
	}
}
