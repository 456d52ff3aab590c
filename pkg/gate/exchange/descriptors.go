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
	// otherDescriptors is the number of descriptors for purposes other than connections
	// and event loops: standard streams, the runtime's poller, side ports and their
	// clients, readiness checks, exporters, the drain socket and watched files.
	otherDescriptors = 28
	// minDescriptors is the smallest budget, even if the process limit is lower.
	minDescriptors = 8
	// retryInterval is the time after which waiters retry although no descriptor was
	// released.
	retryInterval = 10 * time.Millisecond
)

// Minimum idle times of a connection that is closed to free its descriptor.
const (
	// MinSilence applies to a connection on which the client has not sent a byte. A
	// client usually sends its first request immediately after it has connected. So a
	// client that has been silent for this short time probably has no request to send.
	MinSilence = 10 * time.Millisecond
	// MinIdle applies to all other connections. It is longer than MinSilence, because it
	// allows for a round trip between a response and the next request of the client.
	MinIdle = 100 * time.Millisecond
)

// Descriptors is the descriptor budget shared by all client and upstream connections of a
// gate. If it is exhausted, idle connections are closed. Those with the lowest Idleness
// are closed first; of these, the longest idle one is closed first.
//
// A connection holds one descriptor from TryAcquire to Release. All methods may be called
// from any goroutine. Callbacks are called without locks held and must not block.
type Descriptors struct {
	budget     int64
	free       atomic.Int64
	hasWaiters atomic.Bool // waiters is not empty

	mu      sync.Mutex
	sources []IdleConnections
	waiters []func()
	clock   Clock
	retry   func()        // stops the retry timer; nil = not running
	round   *reclaimRound // the reclaim in progress, until the waiters are notified; nil = none
}

// Idleness ranks connections that may be closed to free descriptors, lowest rank first.
type Idleness uint8

// The ranks.
const (
	// IdleUpstream is an upstream connection without an exchange.
	IdleUpstream Idleness = iota
	// IdleClient is a client connection without a request. It may have sent no byte yet.
	IdleClient
	// PartialHead is a client connection that has sent part of a request head or TLS
	// handshake.
	PartialHead
)

// IdleConnection describes the connection of a set that should be closed first.
type IdleConnection struct {
	Idleness  Idleness
	IdleSince int64 // start of the idle time in ns, on the loops' clock
}

// IdleConnections is a set of connections. Those that are idle can be closed to free
// descriptors.
type IdleConnections interface {
	// Oldest calls found once, possibly later and on any goroutine. c is the connection
	// to close first. ok is false if no connection has been idle for long enough.
	Oldest(found func(c IdleConnection, ok bool))
	// CloseOldest closes the oldest connection of this rank. It may return before the
	// connection is closed.
	CloseOldest(rank Idleness)
}

// NewDescriptors returns a budget of n descriptors; 0 = derived from the descriptor
// limit of the process (RLIMIT_NOFILE).
func NewDescriptors(n int) *Descriptors {
	d := &Descriptors{budget: int64(n), clock: newSystemClock()}
	if n == 0 {
		d.budget = connectionLimit()
	}
	d.free.Store(d.budget)
	return d
}

func connectionLimit() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return max(int64(min(limit.Cur, math.MaxInt32))-otherDescriptors, minDescriptors)
}

// Budget returns the total number of descriptors for connections.
func (d *Descriptors) Budget() int { return int(d.budget) }

// Free returns the number of unused descriptors of the budget.
func (d *Descriptors) Free() int { return int(max(d.free.Load(), 0)) }

// Reserve permanently removes n descriptors from the budget.
func (d *Descriptors) Reserve(n int) { d.free.Sub(int64(n)) }

// Add registers a set of connections that may be closed to free descriptors.
func (d *Descriptors) Add(s IdleConnections) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources = append(d.sources, s)
}

// TryAcquire takes a descriptor and returns true, or returns false if the budget is
// exhausted.
func (d *Descriptors) TryAcquire() bool {
	if d.free.Dec() >= 0 {
		return true
	}
	d.free.Inc()
	return false
}

// Release returns a descriptor taken by TryAcquire.
func (d *Descriptors) Release() {
	d.free.Inc()
	if d.hasWaiters.Load() {
		d.notify()
	}
}

// Await calls notify once, after the next Release or after retryInterval. Call it after
// TryAcquire has failed, or after the system has refused a descriptor.
func (d *Descriptors) Await(notify func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters = append(d.waiters, notify)
	d.hasWaiters.Store(true)
	if d.retry == nil {
		d.retry = d.clock.AfterFunc(retryInterval, d.notify)
	}
}

// Reclaim begins to close one idle connection, if there are waiters. The doc comment of
// Descriptors tells which one. Further calls of Reclaim have no effect until the waiters
// have been notified.
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

// reclaimRound is one reclaim. It asks each set for the connection that the set would
// close first. When all sets have replied, it closes the first of these connections in
// the order that the doc comment of Descriptors describes.
type reclaimRound struct {
	d       *Descriptors
	sources []IdleConnections

	mu      sync.Mutex
	pending int            // number of sets that have not replied yet
	any     bool           // a set has replied with a connection
	oldest  IdleConnection // the first connection to close among the replies so far
	source  int            // index in sources of the set to which that connection belongs
}

func (r *reclaimRound) found(index int, c IdleConnection, ok bool) {
	r.mu.Lock()
	if ok && (!r.any || c.before(r.oldest)) {
		r.any, r.oldest, r.source = true, c, index
	}
	r.pending--
	last := r.pending == 0
	r.mu.Unlock()
	if last && r.any && r.d.current(r) {
		r.sources[r.source].CloseOldest(r.oldest.Idleness)
	}
}

// current reports whether r is still in progress. It is not if the waiters for which r
// began have been notified.
func (d *Descriptors) current(r *reclaimRound) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.round == r
}

func (c IdleConnection) before(o IdleConnection) bool {
	return c.Idleness < o.Idleness || c.Idleness == o.Idleness && c.IdleSince < o.IdleSince
}
