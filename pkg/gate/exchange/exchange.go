package exchange

import (
	"fmt"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// State is the state of an exchange. The table allowed lists the transitions.
type State uint8

// The states of an exchange.
const (
	StateIdle       State = iota // no request
	StateArrived                 // the head is complete
	StateQueued                  // in the admission queue
	StateConnecting              // has a slot; connects, or waits until the container listens
	StateAwaiting                // the request is being sent; no final response head has arrived
	StateResponding              // the final response is being forwarded
	StateTunnelling              // protocols have been switched
	StateAbandoned               // the client has disconnected or the request is evicted; the container has not finished, so the slot is held
)

var stateNames = [...]string{"idle", "arrived", "queued", "connecting", "awaiting", "responding", "tunnelling", "abandoned"}

func (s State) String() string { return stateNames[s] }

// allowed lists the transitions, except those to StateIdle. Its index is the old state.
// The bit 1<<s of an element means that the state s may follow. The method End makes the
// transition to StateIdle from any state.
var allowed = [...]uint16{
	StateIdle:       1 << StateArrived,
	StateArrived:    1<<StateQueued | 1<<StateConnecting,
	StateQueued:     1 << StateConnecting,
	StateConnecting: 1 << StateAwaiting,
	StateAwaiting:   1<<StateConnecting | 1<<StateResponding | 1<<StateTunnelling | 1<<StateAbandoned, // StateConnecting: a retry
	StateResponding: 1 << StateAbandoned,
	StateTunnelling: 0,
	StateAbandoned:  0,
}

// Exchange is one request, from the end of its head to the end of its response. It is a
// field of an HTTP/1 session, HTTP/2 stream or Blocking, which reuses it for later
// requests.
type Exchange struct {
	gate.Record
	sides
	Dial Dial
	list.Node[Exchange]

	gate      *Gate
	settings  *settings // the settings when the request arrived
	clock     func() int64
	connector Connector
	ticket    admission.Ticket
	timeouts  Timeouts
	expects   expectation
	retryAt   int64 // earliest time of the next connection attempt; 0 = immediately
	state     State
	// Burst means that the client has sent many requests at once. Requests of other
	// clients take precedence for the last idle upstream connections.
	Burst bool
	// GRPC is the gRPC status for the upstream's reset code; 0 = use the status of the
	// outcome.
	GRPC           uint8
	observed       bool         // Observer.Begin was called, so Observer.End must follow
	retries        uint8        // number of retries
	received       bool         // in StateAbandoned: the final response head has arrived
	pendingOutcome gate.Outcome // in StateAbandoned: the outcome with which the exchange ends
	interims       bool         // an interim response has been forwarded

	tracked *tracked // data for Config.Overload; nil = not needed so far
}

// Bind sets the gate and the functions of the engine, before any other call. clock
// returns the time in ns, always above 0. wake causes a step and may be called from any
// goroutine. handler receives the socket events of x's connections.
func (x *Exchange) Bind(g *Gate, clock func() int64, wake func(), handler loop.Handler) {
	x.gate, x.clock, x.ticket.Waiter.Notify, x.Dial.Handler = g, clock, wake, handler
}

// Wake causes a step. It may be called from any goroutine.
func (x *Exchange) Wake() { x.ticket.Waiter.Notify() }

// Elapsed returns the time since the request arrived. now is a time of the engine's
// clock.
func (x *Exchange) Elapsed(now int64) time.Duration { return time.Duration(now - x.timeouts.Arrived) }

// State returns the state of the exchange.
func (x *Exchange) State() State { return x.state }

// to makes a transition from the current state to the state next. It panics if the
// transition is not allowed. No other function changes the state.
func (x *Exchange) to(next State) {
	if next != StateIdle && allowed[x.state]>>next&1 == 0 {
		panic(fmt.Sprintf("BUG: exchange changes from state %s to %s", x.state, next))
	}
	if l := x.gate.States; l != nil {
		l.ExchangeState(&x.Record, x.state, next)
	}
	x.state = next
}

// Begin counts the request, starts its timeouts and notifies the observer. A Blocking
// passes nil as client and connector. If the caller has set Arrived, Begin does not
// change it.
func (x *Exchange) Begin(now int64, client Downstream, connector Connector) {
	x.to(StateArrived)
	x.down, x.connector = client, connector
	x.retries, x.retryAt, x.expects, x.interims = 0, 0, 0, false
	x.GRPC = 0
	x.Dial.begin()
	x.settings = x.gate.settings.Load()
	if v := x.settings.overload; v != nil {
		v.track(x)
	}
	x.gate.Drain.Enter()
	if s := x.gate.Standby; s != nil {
		s.enter()
	}
	x.Unlimited = x.gate.unlimited.acquire(x)
	x.timeouts.Begin(x.settings, now)
	if x.settings.wait != nil && client != nil {
		x.beginWait()
	}
	if (x.gate.ServerTiming || x.gate.load.metering()) && x.Arrived == 0 {
		x.Arrived = time.Duration(x.clock())
	}
	if o := x.gate.Observer; o != nil {
		if x.Arrived == 0 {
			x.Arrived = time.Duration(x.clock())
		}
		o.Begin(&x.Record)
		x.observed = true
	}
}

// End releases all resources of the exchange and notifies the observer. It must be called
// once after each Begin.
func (x *Exchange) End(o gate.Outcome) {
	x.stamp(&x.Ended)
	if v := x.settings.overload; v != nil && x.ticket.Slot && !x.Unlimited {
		v.addSample(x, o)
	}
	x.ticket.Release(x.slots())
	x.settings.overload.endFlight(x)
	x.settings.overload.endUpload(x)
	if m := x.gate.load; m.metering() && x.Ended != 0 && !x.Unlimited {
		m.requestEnded(&x.Record, x.failedFor(o))
	}
	x.Dial.cancel(x)
	if x.state == StateTunnelling {
		x.gate.Drain.LeaveTunnel()
	} else {
		x.gate.Drain.Leave()
	}
	if s := x.gate.Standby; s != nil {
		s.leave(x.clock())
	}
	x.Outcome = o
	x.to(StateIdle)
	x.down, x.connector = nil, nil
	if x.observed {
		x.observed = false
		if x.Status == 0 {
			x.Status = x.settings.statusOf(o)
		}
		x.gate.Observer.End(&x.Record)
	}
}

func (x *Exchange) slots() *admission.Controller {
	if x.Unlimited {
		return x.gate.unlimited.slots
	}
	return x.gate.Admission
}

// Abandon ends the exchange after a panic in a step.
func (x *Exchange) Abandon() {
	if x.up != nil {
		x.up.Abort()
		x.up = nil
	}
	if x.state != StateIdle {
		x.End(gate.InternalError)
	}
}

func (x *Exchange) enqueue() gate.Outcome {
	switch u := x.gate.unlimited; {
	case u == nil:
	case x.Unlimited:
		x.admitted(x.Arrived)
		return gate.Undecided
	case u.matches(x.Target): // UnlimitedCapacity was in use when x arrived
		return gate.QueueFull
	}
	v := x.settings.overload
	if v != nil {
		if o := v.checkDeadline(x); o != gate.Undecided {
			return o
		}
	}
	if x.ticket.TryAcquire(x.gate.Admission) {
		x.admitted(x.Arrived) // no time has passed since the arrival
		return gate.Undecided
	}
	v.setOrder(x)
	switch x.ticket.Acquire(x.gate.Admission) {
	case admission.Rejected:
		return gate.QueueFull
	case admission.Queued:
		x.to(StateQueued)
		if d := x.settings.QueueMaxWait; d > 0 {
			x.ticket.WaitBy = x.timeouts.Arrived + int64(d)
		}
		v.beginWait(x)
	case admission.Admitted: // a slot was released after TryAcquire failed
		x.admitted(0)
	}
	return gate.Undecided
}

// queued checks whether the queued exchange has got a slot, has expired or has been shed.
func (x *Exchange) queued(now int64) gate.Outcome {
	switch {
	case x.ticket.IsLate(now):
		return gate.DeadlineExceeded
	case x.ticket.Granted():
		x.admitted(0)
		return gate.Undecided
	case x.ticket.Waiter.Shed():
		return gate.QueueFull
	case x.ticket.Waiter.Expired():
		return gate.QueueWaitExpired
	}
	if o := x.timeouts.Expired(now); o != gate.Undecided {
		return o
	}
	if x.ticket.WaitExpired(now) {
		return gate.QueueWaitExpired
	}
	x.settings.overload.checkStall(now)
	x.settings.overload.checkEviction(x, now)
	return gate.Undecided
}

// queueDeadline returns the time at which to call x.queued again. 0 means that x.queued
// need not be called before x is woken.
func (x *Exchange) queueDeadline(now int64) int64 {
	v := x.settings.overload
	return gate.Earliest(gate.Earliest(gate.Earliest(x.timeouts.NextDeadline(), x.ticket.NextDeadline()), v.nextStallCheck(now)), v.nextEviction(x))
}

// admitted records that the exchange has got a slot. The parameter at is the time of the
// admission; 0 = now.
func (x *Exchange) admitted(at time.Duration) {
	x.to(StateConnecting)
	x.settings.overload.beginUpload(x)
	if at == 0 {
		x.stamp(&x.Admitted)
	} else {
		x.Admitted = at
	}
	if v := x.settings.overload; v.evicts() {
		v.beginFlight(x)
	}
	if m := x.gate.load; m.metering() {
		m.moved(int64(x.Admitted))
	}
}

// stamp sets *dst to the current time if the observer, overload control, Server-Timing
// or load reports need it.
func (x *Exchange) stamp(dst *time.Duration) {
	if x.observed || x.settings.overload != nil || x.gate.ServerTiming || x.gate.load.metering() {
		*dst = time.Duration(x.clock())
	}
}

// ServerTiming returns the value of Server-Timing for a response (W3C Server Timing). It
// has three durations in ms: the wait for a slot, the wait for a connection to the
// container, and the wait for its response head. nil = Config.ServerTiming is off.
func (x *Exchange) ServerTiming() []byte {
	if !x.gate.ServerTiming {
		return nil
	}
	b := make([]byte, 0, 80)
	from := x.Arrived
	for _, t := range []struct {
		name string
		end  time.Duration
	}{{"queue;dur=", x.Admitted}, {", connect;dur=", x.Forwarded}, {", upstream;dur=", x.Responded}} {
		b = append(b, t.name...)
		b = strconv.AppendFloat(b, max(0, float64(t.end-from)/float64(time.Millisecond)), 'f', 3, 64)
		from = t.end
	}
	return b
}
