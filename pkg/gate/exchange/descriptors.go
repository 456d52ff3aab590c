package exchange

import (
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/atomic"
)

const (
	// otherDescriptors is what the process opens beside connections and event
	// loops: standard streams, the runtime's poller, side ports and their callers,
	// readiness probes, exporters, the drain socket, watched files.
	otherDescriptors = 28
	// minDescriptors is the smallest budget, however low the limit is.
	minDescriptors = 8
	// retryInterval is the time between two attempts of those that wait for a
	// descriptor when nothing has been released.
	retryInterval = 10 * time.Millisecond
)

// How long a connection must have waited to be closed for the sake of others.
const (
	// MinSilence is that of one that has not sent anything: the first request of
	// a client comes right behind its connection.
	MinSilence = 10 * time.Millisecond
	// MinIdle is that of others: a round trip lies between an answer and the next
	// request, and between two parts of a head.
	MinIdle = 100 * time.Millisecond
)

// Descriptors is the budget of descriptors that all connections of a gate
// share: those of clients, on any port and of any protocol, and those to the
// user container. When it is used up, connections that wait for a request are
// closed, the longest idle first, before anything else is turned away.
//
// A connection holds one descriptor from TryAcquire to Release, whichever engines
// it passes through. All methods may be called from any goroutine; callbacks
// are called without a lock held and must not block.
type Descriptors struct {
	budget     int64
	free       atomic.Int64
	hasWaiters atomic.Bool // there are waiters
	reclaimed  atomic.Uint64

	mu      sync.Mutex
	sources []IdleConnections
	waiters []func()
	clock   Clock
	retry   func()        // stops what runs while there are waiters; nil = there are none
	round   *reclaimRound // closes one connection, or has; nil after that has been noticed
}

// Idleness ranks connections that may be closed for the sake of others; the
// lowest rank goes first.
type Idleness uint8

// The ranks.
const (
	IdleUpstream   Idleness = iota // to the user container, in no exchange
	IdleClient                     // between two requests, or silent since it was accepted
	UnfinishedHead                 // has begun a request head or a TLS handshake
)

// IdleConnection describes the connection of a set that is to be closed first.
type IdleConnection struct {
	Idleness Idleness
	Since    int64 // on the clock of Exchange, in nanoseconds
}

// IdleConnections is a set of connections of which some may be closed.
type IdleConnections interface {
	// Oldest calls found once, soon and on any goroutine, with the connection to
	// be closed first; ok is false if there is none that has waited for long
	// enough.
	Oldest(found func(c IdleConnection, ok bool))
	// CloseOldest closes, soon, the oldest connection of the rank that it has by
	// then.
	CloseOldest(rank Idleness)
}

// NewDescriptors makes a budget of n descriptors; 0 stands for what the limit
// of the process (RLIMIT_NOFILE) leaves for connections.
func NewDescriptors(n int) *Descriptors {
	d := &Descriptors{budget: int64(n), clock: newSystemClock()}
	if n == 0 {
		d.budget = connectionLimit()
	}
	d.free.Store(d.budget)
	return d
}

// connectionLimit is RLIMIT_NOFILE less what is not for connections.
func connectionLimit() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return max(int64(min(limit.Cur, math.MaxInt32))-otherDescriptors, minDescriptors)
}

// Budget is the number of descriptors for connections, and Free what is left
// of it.
func (d *Descriptors) Budget() int { return int(d.budget) }

// Free is described at Budget.
func (d *Descriptors) Free() int { return int(max(d.free.Load(), 0)) }

// Reclaimed counts the clients' connections that were closed for the sake of
// others.
func (d *Descriptors) Reclaimed() uint64 { return d.reclaimed.Load() }

// Reserve takes n descriptors out of the budget for good.
func (d *Descriptors) Reserve(n int) { d.free.Sub(int64(n)) }

// Add makes a set known whose connections may be closed.
func (d *Descriptors) Add(s IdleConnections) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources = append(d.sources, s)
}

// TryAcquire takes a descriptor if one is left.
func (d *Descriptors) TryAcquire() bool {
	if d.free.Dec() >= 0 {
		return true
	}
	d.free.Inc()
	return false
}

// Release ends what TryAcquire began.
func (d *Descriptors) Release() {
	d.free.Inc()
	if d.hasWaiters.Load() {
		d.notify()
	}
}

// Await calls notify, once, when it is time to try again: after a Release, and
// after a while in any case. It is for callers whose TryAcquire failed, and for
// those to whom the system gave no descriptor.
func (d *Descriptors) Await(notify func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters = append(d.waiters, notify)
	d.hasWaiters.Store(true)
	if d.retry == nil {
		d.retry = d.clock.After(retryInterval, d.notify)
	}
}

// Reclaim closes, soon, the connection that is to give way to those that wait,
// if there is one: one for each time that they are notified.
func (d *Descriptors) Reclaim() {
	d.mu.Lock()
	if d.round != nil || len(d.sources) == 0 || len(d.waiters) == 0 {
		d.mu.Unlock()
		return
	}
	r := &reclaimRound{d: d, sources: slices.Clone(d.sources)}
	r.pending = len(r.sources)
	d.round = r
	d.mu.Unlock()
	for i, s := range r.sources {
		s.Oldest(func(c IdleConnection, ok bool) { r.found(i, c, ok) })
	}
}

func (d *Descriptors) notify() {
	d.mu.Lock()
	waiters := d.waiters
	d.waiters, d.round = nil, nil
	d.hasWaiters.Store(false)
	if d.retry != nil {
		d.retry()
		d.retry = nil
	}
	d.mu.Unlock()
	for _, notify := range waiters {
		notify()
	}
}

// reclaimRound asks all sets for their oldest connection and closes the oldest
// of all.
type reclaimRound struct {
	d       *Descriptors
	sources []IdleConnections

	mu      sync.Mutex
	pending int // sets that have not answered yet
	any     bool
	oldest  IdleConnection
	source  int // its set
}

func (r *reclaimRound) found(at int, c IdleConnection, ok bool) {
	r.mu.Lock()
	if ok && (!r.any || c.before(r.oldest)) {
		r.any, r.oldest, r.source = true, c, at
	}
	r.pending--
	last := r.pending == 0
	r.mu.Unlock()
	if last && r.any && r.d.current(r) {
		r.sources[r.source].CloseOldest(r.oldest.Idleness)
	}
}

// current reports whether r is still needed.
func (d *Descriptors) current(r *reclaimRound) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.round == r
}

func (c IdleConnection) before(o IdleConnection) bool {
	return c.Idleness < o.Idleness || c.Idleness == o.Idleness && c.Since < o.Since
}

// NoteReclaimed counts a client's connection that CloseOldest has closed.
func (d *Descriptors) NoteReclaimed() { d.reclaimed.Inc() }
