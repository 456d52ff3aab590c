package exchange

import (
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Attempt is a connection to the container that is being opened.
type Attempt interface{ Close() }

// Dial is what an exchange keeps while it has no connection to the container.
type Dial struct {
	// Handler gets the events of the connection's socket.
	Handler loop.Handler
	// Attempt is the connection that the Connector is opening; nil = none.
	Attempt Attempt
	// Via identifies the Connector that began the attempt, if a router chooses
	// among several; 0 = none.
	Via uint8
	// First is the Via of the first attempt that sent the request; 0 = not sent
	// yet.
	First uint8
	// Switched means that the container did not understand the request on First, so
	// the next attempt uses the other protocol. A request switches protocols at
	// most once.
	Switched bool
	// Detects means that the request is not retried: the attempt only detects the
	// protocol of the container.
	Detects bool
	// Opened is the number of connections opened for the request since the container
	// last responded on a new one. The Connector maintains it.
	Opened uint8
	// Why is the outcome of the last attempt, if any.
	Why gate.Outcome

	line   *DialLine // nil = in none
	giveUp int64     // when the exchange is held no longer; 0 = it has not been held
}

// begin clears the state of the previous request.
func (d *Dial) begin() {
	d.First, d.Switched, d.Detects, d.Opened, d.Why = 0, false, false, 0, gate.Undecided
}

// DialLine is a line of exchanges that wait for a connection, in the order of
// their arrival. An exchange stands in one line at most.
type DialLine struct {
	list list.List[Exchange, *Exchange]
}

// First is the exchange that has waited longest, or nil.
func (l *DialLine) First() *Exchange { return l.list.First() }

// Join appends x, unless it stands in l already.
func (l *DialLine) Join(x *Exchange) {
	switch x.Dial.line {
	case nil:
	case l:
		return
	case &x.gate.Pending.line:
		x.gate.Pending.leave(x)
	default:
		x.Dial.line.Leave(x)
	}
	x.Dial.line = l
	l.list.Push(x)
}

// WakeAll lets all who wait try again.
func (l *DialLine) WakeAll() {
	for x := range l.list.All() {
		x.Wake()
	}
}

// NoteResponse notes that the container has responded on a new connection, so the
// connections that the waiting exchanges have opened do not count as failed.
func (l *DialLine) NoteResponse() {
	for x := range l.list.All() {
		x.Dial.Opened = 0
	}
}

// Leave takes x out, if it stands in l.
func (l *DialLine) Leave(x *Exchange) {
	if x.Dial.line == l {
		x.Dial.line = nil
		l.list.Remove(x)
	}
}

// leave takes back what x, whose Dial it is, has begun in order to connect.
func (d *Dial) leave(x *Exchange) {
	if d.Attempt != nil {
		x.connector.Cancel(x)
		d.Attempt = nil
	}
	if d.line == &x.gate.Pending.line {
		x.gate.Pending.leave(x)
	} else if line := d.line; line != nil {
		line.Leave(x)
		if next := line.First(); next != nil {
			next.Wake()
		}
	}
	d.giveUp, d.Via = 0, 0
}

// PendingDials are the requests that are held because the container does not
// listen, of all engines and loops of a gate. The one that has waited longest
// makes the attempts, at QuickPace; its success releases the others. All
// methods may be called from any goroutine.
type PendingDials struct {
	gate     *Gate
	down     atomic.Int64 // since when connections are refused; 0 = they are not
	held     atomic.Int64
	listened atomic.Bool // the container has accepted a connection at least once

	mu    sync.Mutex
	line  DialLine
	tryAt int64 // no attempt before
}

// Start says that from now on nothing is known of the container.
func (p *PendingDials) Start(now int64) { p.down.CompareAndSwap(0, now) }

// Held is the number of requests that are held now.
func (p *PendingDials) Held() int { return int(p.held.Load()) }

// Holds reports whether x is held. It is for the loop of x alone.
func (p *PendingDials) Holds(x *Exchange) bool { return x.Dial.line == &p.line }

// Clear reports that nothing speaks against an attempt to connect: the
// container listens, or no request makes attempts yet.
func (p *PendingDials) Clear() bool { return p.down.Load() == 0 || p.held.Load() == 0 }

// Refused notes that the container does not listen, and reports whether that
// is news.
func (p *PendingDials) Refused(now int64) bool {
	if !p.down.CompareAndSwap(0, now) {
		return false
	}
	if c := p.gate.Contact; c != nil {
		c.Listening(false)
	}
	return true
}

// Reached notes that the container listens, and releases those who are held.
func (p *PendingDials) Reached() {
	if p.down.Load() == 0 || p.down.Swap(0) == 0 {
		return
	}
	p.listened.Store(true)
	if c := p.gate.Contact; c != nil {
		c.Listening(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tryAt = 0
	p.line.WakeAll()
}

// Hurry makes the next attempt at once: the container has been seen to listen.
func (p *PendingDials) Hurry() {
	if p.held.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tryAt = 0
	if x := p.line.First(); x != nil {
		x.Wake()
	}
}

// Hold gives x a place in the line, if it has none, and tells whether it is to
// make an attempt now; if not, Hold is called again at the latest when next
// has passed. If o is not Undecided, x ends with it.
func (p *PendingDials) Hold(x *Exchange, now int64) (try bool, next int64, o gate.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &x.Dial
	if d.line != &p.line {
		if p.gate.Admission.Limit() == 0 && p.held.Load() >= int64(p.gate.QueueCapacity) {
			return false, 0, gate.QueueFull
		}
		p.line.Join(x)
		p.held.Inc()
		if d.giveUp == 0 {
			wait := p.gate.UpstreamWait
			if p.listened.Load() {
				wait = p.gate.UpstreamRestartWait
			}
			d.giveUp = now + int64(wait)
		}
	}
	if now >= d.giveUp {
		return false, 0, gate.UpstreamNotListening
	}
	down := p.down.Load()
	first := p.line.First() == x
	if down == 0 || first && now >= p.tryAt {
		p.tryAt = now + gate.QuickPace(now-down, p.gate.Jitter())
		return true, p.tryAt, gate.Undecided
	}
	if first {
		return false, gate.Earliest(d.giveUp, p.tryAt), gate.Undecided
	}
	return false, d.giveUp, gate.Undecided
}

// leave takes x out of the line; the one that is first now goes on trying.
func (p *PendingDials) leave(x *Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.line.First()
	p.line.Leave(x)
	p.held.Dec()
	if p.line.First() != nil && p.line.First() != was {
		p.line.First().Wake()
	}
}
