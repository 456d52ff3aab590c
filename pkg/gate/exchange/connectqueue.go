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

// Dial is the connection state of an exchange that has no upstream connection yet.
type Dial struct {
	// Handler receives the socket events of the connection.
	Handler loop.Handler
	// Attempt is the connection being opened; nil = none.
	Attempt Attempt
	// Via identifies the Connector of the current attempt, if a router chooses between
	// several; 0 = none.
	Via uint8
	// First is the value that Via had when the request first got a connection; 0 = it has
	// not got one.
	First uint8
	// Switched is true once the request has switched to the other protocol. First then
	// identifies the old protocol. A request switches at most once.
	Switched bool
	// Detects means that the attempt only detects the container's protocol. The request
	// is not sent on the connection.
	Detects bool
	// Opened counts the connections opened for this request. NoteResponse resets it.
	Opened uint8
	// LastFailure holds the outcome with which the request failed on its last connection. The
	// request ends with this outcome if it is not sent on another connection. Undecided =
	// it has not failed.
	LastFailure gate.Outcome

	queue    *WaitQueue // nil = not queued
	deadline int64      // 0 = not waiting for the container
}

func (d *Dial) begin() {
	d.First, d.Switched, d.Detects, d.Opened, d.LastFailure = 0, false, false, 0, gate.Undecided
}

// WaitQueue is a FIFO queue of exchanges that wait for a connection. An exchange is in at
// most one WaitQueue.
type WaitQueue struct {
	list list.List[Exchange, *Exchange]
}

// First returns the exchange added first; nil = the queue is empty.
func (l *WaitQueue) First() *Exchange { return l.list.First() }

// Add appends x to the queue, unless it is already there. x leaves its previous queue.
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

func (l *WaitQueue) WakeAll() {
	for x := range l.list.All() {
		x.Wake()
	}
}

// NoteResponse resets Dial.Opened of all queued exchanges. It is called when the
// container has responded on a new connection.
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

// cancel ends the connection attempt of x, the owner of d, and removes x from its queue.
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
// container listens. Only the first request attempts to connect. When it succeeds, all
// others are woken. All methods may be called from any goroutine.
type ConnectQueue struct {
	gate            *Gate
	refusedSince    atomic.Int64 // 0 = connections are accepted
	num             atomic.Int64
	listened        atomic.Bool // the container has accepted a connection before
	containerExited atomic.Bool // the container has exited and will not listen again

	mu        sync.Mutex
	queue     WaitQueue
	attemptAt int64 // earliest time of the next attempt
	maxPace   int64 // longest delay between attempts until the container listens; 0 = no limit
}

// Start records that the container does not listen yet.
func (p *ConnectQueue) Start(now int64) { p.refusedSince.CompareAndSwap(0, now) }

// Len returns the number of queued requests.
func (p *ConnectQueue) Len() int { return int(p.num.Load()) }

// Contains reports whether x is queued. Only the loop of x may call it.
func (p *ConnectQueue) Contains(x *Exchange) bool { return x.Dial.queue == &p.queue }

// Clear reports whether a request may attempt to connect without joining the queue. It
// returns true if the container accepts connections or if the queue is empty.
func (p *ConnectQueue) Clear() bool { return p.refusedSince.Load() == 0 || p.num.Load() == 0 }

// MayOpenExtra reports whether a connection may be opened before a request needs it. The
// queue must be Clear and the container must not be suspended.
func (p *ConnectQueue) MayOpenExtra() bool {
	return p.Clear() && (p.gate.Standby == nil || p.gate.Standby.Running())
}

// NoteRefused records that a connection to the container was refused. It returns true if the
// gate assumed until now that the container accepts connections. So it returns true only
// for the first of several refusals.
func (p *ConnectQueue) NoteRefused(now int64) bool {
	if !p.refusedSince.CompareAndSwap(0, now) {
		return false
	}
	if c := p.gate.Contact; c != nil {
		c.Listening(false)
	}
	return true
}

// NoteReached records that the container listens, and wakes all queued requests.
func (p *ConnectQueue) NoteReached() {
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

// End records that the container has exited. Queued requests, and requests whose
// connection is refused later, end immediately.
func (p *ConnectQueue) End() {
	p.containerExited.Store(true)
	p.wakeAll()
}

// Hurry makes the next attempt due now, because a readiness check has connected.
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

// Enqueue queues x, unless it is already queued. The first result, try, is true if x must
// attempt to connect now. The second is the latest time at which the caller must call
// Enqueue again. The third is the outcome with which x ends; Undecided = x does not end.
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
	refusedSince := p.refusedSince.Load()
	first := p.queue.First() == x
	if refusedSince == 0 || first && now >= p.attemptAt {
		pace := gate.QuickPace(now-refusedSince, p.gate.Jitter())
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

// join queues x, unless it is already there. It returns false if the queue is full. The
// caller holds mu.
func (p *ConnectQueue) join(x *Exchange) bool {
	if x.Dial.queue == &p.queue {
		return true
	}
	if p.gate.Admission.Limit() == 0 && p.num.Load() >= int64(x.settings.QueueCapacity) {
		return false
	}
	p.queue.Add(x)
	p.num.Inc()
	return true
}

// expired reports whether the container has exited or x has waited for too long. The
// first call starts the wait. The caller holds mu.
func (p *ConnectQueue) expired(x *Exchange, now int64) bool {
	if p.containerExited.Load() && p.refusedSince.Load() != 0 {
		return true
	}
	d := &x.Dial
	if d.deadline == 0 {
		wait := x.settings.UpstreamWait
		if p.listened.Load() {
			wait = x.settings.UpstreamRestartWait
		}
		d.deadline = now + int64(wait)
	}
	return now >= d.deadline
}

// queueIfSuspended queues x if the container is suspended. If the container is running,
// queueIfSuspended does nothing and the first result is false. The second result is the
// outcome with which x ends; Undecided = x does not end.
func (p *ConnectQueue) queueIfSuspended(x *Exchange) (isSuspended bool, o gate.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	// Check the state with mu held. Resume first changes the state and then wakes the
	// queue. So a request that is queued while the container is suspended will be woken.
	case p.gate.Standby.Running():
		return false, gate.Undecided
	case !p.join(x):
		return true, gate.QueueFull
	}
	return true, gate.Undecided
}

func (p *ConnectQueue) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.WakeAll()
}

// remove removes x. If x was first, it wakes the next request, which then attempts to
// connect.
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
