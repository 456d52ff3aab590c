package gate

import (
	"fmt"
	"net/netip"
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
	StateSettling                // the client has left; the slot is held until the container is done
)

// allowed lists, for each state, those that may follow it. Every state but
// StateIdle may be followed by StateIdle: that is End.
var allowed = [...][]State{
	StateIdle:       {StateArrived},
	StateArrived:    {StateQueued, StateConnecting},
	StateQueued:     {StateConnecting},
	StateConnecting: {StateAwaiting},
	StateAwaiting:   {StateConnecting, StateAnswering, StateTunnelling, StateSettling}, // back to connecting: sent again
	StateAnswering:  {StateSettling},
	StateTunnelling: {},
	StateSettling:   {},
}

// Exchange is one request, from the end of its head to the end of its answer.
// The engine owns it and uses it for one request after the other. The first
// half is what an observer sees: it may keep a pointer between Begin and End
// of the same request, not longer, and copies what it wants to keep. The byte
// slices and Fields are valid during the calls only.
type Exchange struct {
	Protocol  string // HTTP/1.0, HTTP/1.1 or HTTP/2.0
	Method    []byte
	Target    []byte // as it goes on: path and query
	Host      []byte // as the container sees it
	UserAgent []byte // nil when absent
	Peer      netip.AddrPort
	Encrypted bool         // came over TLS
	Fields    Fields       // all header fields as they came
	Trace     *TraceFields // nil when there is no trace context
	Status    int          // as sent or, where nothing could be sent, as Outcome means it

	// TraceLines is set by the observer during Begin: field lines, each with
	// its CRLF, that the container gets in the place of the trace context that
	// came (tracestate stays). They must not change before End. nil = the
	// context goes on as it came.
	TraceLines []byte

	Proxied         bool   // K-Proxy-Request: activator
	RouteTag        []byte // Knative-Serving-Tag
	DefaultRoute    []byte // Knative-Serving-Default-Route
	HasDefaultRoute bool   // tells an empty field from an absent one
	Outcome         Outcome

	Arrived      time.Duration // the gate's clock when the head was complete
	Admitted     time.Duration // when it got its slot; 0 = never
	Forwarded    time.Duration // when the first byte went to the container; 0 = never
	Answered     time.Duration // when the container's final head was read; 0 = never
	Ended        time.Duration
	RequestBody  int64 // body bytes taken from the client
	ResponseBody int64 // body bytes given to the client

	// Context is free for the observer, from Begin to End.
	Context any

	gate      *Gate
	clock     func() int64
	driver    any
	client    ClientSide
	connector Connector
	up        UpstreamSide // nil = none yet
	waiter    Waiter
	dial      Dial
	clocks    Clocks
	state     State
	slot      bool  // a slot is owed to Admission
	observed  bool  // an End is owed to the observer
	replayed  bool  // this is another try, on a fresh connection
	tries     uint8 // how often the request has been sent again
	received  bool  // while settling: the final head has come
	awaited   bool  // the client waits for a 100 that has not been sent
	continues int64 // when the gate says 100 itself; 0 = never, or it has
	giveUp    int64 // when it is not queued any longer; 0 = no bound
}

// Bind says once whose exchanges x tells, on which clock (in ns, above 0), and
// what leads to a step: wake, which may be called from any goroutine, and
// driver, to which a Connector directs the events of its sockets.
func (x *Exchange) Bind(g *Gate, clock func() int64, wake func(), driver any) {
	x.gate, x.clock, x.waiter.Notify, x.driver = g, clock, wake, driver
}

// Driver is what Bind was given.
func (x *Exchange) Driver() any { return x.driver }

// Describe forgets the last request, and returns x for the next one's side to
// fill in what its head says.
func (x *Exchange) Describe() *Exchange {
	x.Protocol, x.Method, x.Target, x.Host, x.UserAgent = "", nil, nil, nil, nil
	x.Peer, x.Encrypted, x.Fields, x.Trace, x.Status, x.TraceLines = netip.AddrPort{}, false, nil, nil, 0, nil
	x.Proxied, x.RouteTag, x.DefaultRoute, x.HasDefaultRoute, x.Outcome = false, nil, nil, false, Served
	x.Arrived, x.Admitted, x.Forwarded, x.Answered, x.Ended = 0, 0, 0, 0, 0
	x.RequestBody, x.ResponseBody, x.Context = 0, 0, nil
	return x
}

// State is where the exchange stands.
func (x *Exchange) State() State { return x.state }

// to is the only way from one state to another.
func (x *Exchange) to(next State) {
	if next != StateIdle {
		ok := false
		for _, s := range allowed[x.state] {
			ok = ok || s == next
		}
		if !ok {
			panic(fmt.Sprintf("BUG: an exchange goes from state %d to %d", x.state, next))
		}
	}
	x.state = next
}

// Begin counts the request, starts its clocks and tells the observer. The
// sides are those of this request; a Blocking has none. Arrived is the caller's
// if it is set.
func (x *Exchange) Begin(now int64, client ClientSide, connector Connector) {
	x.to(StateArrived)
	x.client, x.connector = client, connector
	x.replayed, x.tries, x.awaited, x.continues, x.giveUp = false, 0, false, 0, 0
	x.gate.Drain.Enter()
	x.clocks.Begin(&x.gate.Config, now)
	if o := x.gate.Observer; o != nil {
		if x.Arrived == 0 {
			x.Arrived = time.Duration(x.clock())
		}
		o.Begin(x)
		x.observed = true
	}
}

// End gives back what the exchange holds and tells the observer how it ended.
// It is the only way out of Begin.
func (x *Exchange) End(o Outcome) {
	x.withdraw()
	x.leaveDial()
	if x.slot {
		x.slot = false
		x.gate.Admission.End()
	}
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
		x.Ended = time.Duration(x.clock())
		x.gate.Observer.End(x)
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

// admit is the step of an exchange that has no slot. With refused the exchange ends with o.
func (x *Exchange) admit(now int64) (o Outcome, refused bool) {
	switch {
	case x.client.Gone():
		return ClientGone, true
	case x.state == StateArrived:
		return x.enqueue()
	}
	return x.queued(now)
}

// enqueue takes a slot, or a place in the queue.
func (x *Exchange) enqueue() (o Outcome, refused bool) {
	switch x.gate.Admission.Begin(&x.waiter) {
	case Refused:
		return QueueFull, true
	case Queued:
		x.to(StateQueued)
		if d := x.gate.QueueMaxWait; d > 0 {
			x.giveUp = x.clocks.Arrived + int64(d)
		}
	case Admitted:
		x.admitted()
	}
	return Served, false
}

// queued looks whether the place in the queue has become a slot.
func (x *Exchange) queued(now int64) (o Outcome, refused bool) {
	if x.waiter.Admitted() {
		x.admitted()
		return Served, false
	}
	if o, expired := x.clocks.Expired(now); expired {
		return o, true
	}
	if x.giveUp != 0 && now >= x.giveUp {
		return QueueWaitExpired, true
	}
	return Served, false
}

// admitted notes that the exchange holds a slot.
func (x *Exchange) admitted() {
	x.slot = true
	x.to(StateConnecting)
	x.stamp(&x.Admitted)
}

// withdraw gives up a place in the queue; a slot that came at the same moment
// is owed.
func (x *Exchange) withdraw() {
	if x.state == StateQueued && !x.gate.Admission.Withdraw(&x.waiter) {
		x.slot = true
	}
}

// stamp notes an instant for the observer, if there is one.
func (x *Exchange) stamp(at *time.Duration) {
	if x.observed {
		*at = time.Duration(x.clock())
	}
}
