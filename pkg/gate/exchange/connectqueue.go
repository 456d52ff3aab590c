package exchange

import (
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Attempt is a connection to the container that is still being opened.
type Attempt interface{ Close() }

// Dial is the state of an exchange that has no connection to the container yet.
type Dial struct {
	// Handler receives the events of the socket of the connection.
	Handler loop.Handler
	// Attempt is the connection that the Connector is opening; nil = none.
	Attempt Attempt
	// Via identifies the Connector that began the attempt, if a router chooses among
	// several Connectors; 0 = none.
	Via uint8
	// First is the Via of the first attempt that sent the request; 0 = the request has
	// not been sent.
	First uint8
	// Switched means that the container did not understand the request over the protocol
	// of First. The next attempt uses the other protocol. A request switches protocols at
	// most once.
	Switched bool
	// Detects means that the attempt only detects the protocol of the container. The
	// request is not sent again.
	Detects bool
	// Opened counts the connections opened for this request. It is reset when the
	// container responds to another request on a new connection. The Connector maintains
	// it.
	Opened uint8
	// Why is the outcome of the last attempt; Undecided if there was none.
	Why gate.Outcome

	queue    *WaitQueue // nil = not queued
	deadline int64      // end of the wait for the container; 0 = not waiting
}

// begin clears the state of the previous request.
func (d *Dial) begin() {
	d.First, d.Switched, d.Detects, d.Opened, d.Why = 0, false, false, 0, gate.Undecided
}

// WaitQueue holds exchanges that wait for a connection, first come, first served. An
// exchange is in one WaitQueue at most.
type WaitQueue struct {
	list list.List[Exchange, *Exchange]
}

// First returns the exchange that has waited longest; nil = the queue is empty.
func (l *WaitQueue) First() *Exchange { return l.list.First() }

// Add appends x to the queue, and removes x from its previous queue. If x is already in
// l, nothing changes.
func (l *WaitQueue) Add(x *Exchange) {
	switch x.Dial.queue {
	case nil:
	case l:
		return
	case &x.gate.Connects.queue:
		x.gate.Connects.remove(x)
	default:
		x.Dial.queue.Remove(x)
	}
	x.Dial.queue = l
	l.list.Push(x)
}

// WakeAll wakes all exchanges of the queue.
func (l *WaitQueue) WakeAll() {
	for x := range l.list.All() {
		x.Wake()
	}
}

// NoteResponse is called when the container has responded on a new connection that
// carries a request. It resets Dial.Opened of all exchanges in the queue.
func (l *WaitQueue) NoteResponse() {
	for x := range l.list.All() {
		x.Dial.Opened = 0
	}
}

// Remove removes x, if it is in l.
func (l *WaitQueue) Remove(x *Exchange) {
	if x.Dial.queue == l {
		x.Dial.queue = nil
		l.list.Remove(x)
	}
}

// cancel ends the connection attempt of x and removes x from its queue. d is the Dial of
// x.
func (d *Dial) cancel(x *Exchange) {
	if d.Attempt != nil {
		x.connector.Cancel(x)
		d.Attempt = nil
	}
	if d.queue == &x.gate.Connects.queue {
		x.gate.Connects.remove(x)
	} else if q := d.queue; q != nil {
		q.Remove(x)
		if next := q.First(); next != nil {
			next.Wake()
		}
	}
	d.deadline, d.Via = 0, 0
}

// ConnectQueue holds the requests of all protocols and loops that wait until the
// container listens. Only the first request attempts to connect, at QuickPace. When it
// succeeds, all others are woken. All methods may be called from any goroutine.
type ConnectQueue struct {
	gate         *Gate
	refusedSince atomic.Int64 // time since which connections are refused; 0 = they are accepted
	num          atomic.Int64
	listened     atomic.Bool // the container has accepted a connection at least once
	ended        atomic.Bool // the container has ended and will not listen again

	mu        sync.Mutex
	queue     WaitQueue
	attemptAt int64 // earliest time of the next attempt
	maxPace   int64 // longest delay between attempts until the container listens; 0 = the delay of QuickPace
}

// Start marks the container as not listening from now on.
func (p *ConnectQueue) Start(now int64) { p.refusedSince.CompareAndSwap(0, now) }

// Len returns the number of queued requests.
func (p *ConnectQueue) Len() int { return int(p.num.Load()) }

// Contains reports whether x is queued. Only the loop of x may call it.
func (p *ConnectQueue) Contains(x *Exchange) bool { return x.Dial.queue == &p.queue }

// Clear reports whether any request may attempt to connect: the container listens, or no
// request is queued.
func (p *ConnectQueue) Clear() bool { return p.refusedSince.Load() == 0 || p.num.Load() == 0 }

// MayOpenExtra reports whether a connection may be opened before a request needs it. It
// may if the queue is Clear and the container is not suspended.
func (p *ConnectQueue) MayOpenExtra() bool {
	return p.Clear() && (p.gate.Standby == nil || p.gate.Standby.Running())
}

// Refused records a refused connection. It returns false if the previous one was refused
// too.
func (p *ConnectQueue) Refused(now int64) bool {
	if !p.refusedSince.CompareAndSwap(0, now) {
		return false
	}
	if c := p.gate.Contact; c != nil {
		c.Listening(false)
	}
	return true
}

// Reached records that the container listens, and wakes all queued requests.
func (p *ConnectQueue) Reached() {
	if p.refusedSince.Load() == 0 || p.refusedSince.Swap(0) == 0 {
		return
	}
	p.listened.Store(true)
	if c := p.gate.Contact; c != nil {
		c.Listening(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attemptAt = 0
	p.queue.WakeAll()
}

// End records that the container has ended and will not listen again. From now on a
// request ends when its connection is refused, and queued requests end immediately.
func (p *ConnectQueue) End() {
	p.ended.Store(true)
	p.wakeAll()
}

// Hurry makes the next attempt due immediately. It is called when a readiness check has
// connected.
func (p *ConnectQueue) Hurry() {
	if p.num.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attemptAt = 0
	if x := p.queue.First(); x != nil {
		x.Wake()
	}
}

// Enqueue queues x, unless it is already queued. If try is true, x must attempt to
// connect now. If try is false, the caller must call Enqueue again at the time next or
// earlier. If o is not Undecided, x ends with outcome o.
func (p *ConnectQueue) Enqueue(x *Exchange, now int64) (try bool, next int64, o gate.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &x.Dial
	if !p.join(x) {
		return false, 0, gate.QueueFull
	}
	if p.expired(x, now) {
		return false, 0, gate.UpstreamNotListening
	}
	down := p.refusedSince.Load()
	first := p.queue.First() == x
	if down == 0 || first && now >= p.attemptAt {
		pace := gate.QuickPace(now-down, p.gate.Jitter())
		if p.maxPace > 0 && !p.listened.Load() {
			pace = min(pace, p.maxPace)
		}
		p.attemptAt = now + pace
		return true, p.attemptAt, gate.Undecided
	}
	if first {
		return false, gate.Earliest(d.deadline, p.attemptAt), gate.Undecided
	}
	return false, d.deadline, gate.Undecided
}

// join queues x, unless it is already queued. It returns false if the queue is full. The
// caller holds mu.
func (p *ConnectQueue) join(x *Exchange) bool {
	if x.Dial.queue == &p.queue {
		return true
	}
	if p.gate.Admission.Limit() == 0 && p.num.Load() >= int64(x.settings.queueCapacity) {
		return false
	}
	p.queue.Add(x)
	p.num.Inc()
	return true
}

// expired reports whether x has waited longer than its timeout allows, or waits for a
// container that has ended. The wait begins with the first call. The caller holds mu.
func (p *ConnectQueue) expired(x *Exchange, now int64) bool {
	if p.ended.Load() && p.refusedSince.Load() != 0 {
		return true
	}
	d := &x.Dial
	if d.deadline == 0 {
		wait := x.settings.upstreamWait
		if p.listened.Load() {
			wait = x.settings.upstreamRestartWait
		}
		d.deadline = now + int64(wait)
	}
	return now >= d.deadline
}

// hold queues x while the container is suspended. isHeld is false if the container has
// been resumed. If o is not Undecided, x ends with outcome o.
func (p *ConnectQueue) hold(x *Exchange) (isHeld bool, o gate.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gate.Standby.Running(): // Resume changes the state before it wakes the queue
		return false, gate.Undecided
	case !p.join(x):
		return true, gate.QueueFull
	}
	return true, gate.Undecided
}

// wakeAll wakes all queued requests.
func (p *ConnectQueue) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.WakeAll()
}

// remove removes x. If x was first, the next request takes over the attempts.
func (p *ConnectQueue) remove(x *Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.queue.First()
	p.queue.Remove(x)
	p.num.Dec()
	if p.queue.First() != nil && p.queue.First() != was {
		p.queue.First().Wake()
	}
}
