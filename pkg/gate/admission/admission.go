package admission

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/internal/list"
)

// Decision is the result of Controller.Acquire.
type Decision uint8

const (
	// Admitted means that the caller holds a slot and must call Release.
	Admitted Decision = iota
	// Queued means that the waiter is queued. Its Notify will be called, unless
	// Withdraw removes it first.
	Queued
	// Rejected means that the caller has neither a slot nor a queue position.
	Rejected
)

const (
	// MaxLimit is the highest concurrency limit that New accepts.
	MaxLimit = 1 << 20
	// MaxCapacity is the highest queue capacity that New accepts.
	MaxCapacity = 1 << 24
)

// Config is the configuration of a Controller. Configure replaces it.
type Config struct {
	// Limit is the maximum number of requests in flight, up to MaxLimit. 0 = unlimited:
	// all requests are admitted, and still counted.
	Limit int
	// Capacity is the maximum number of queued requests, up to MaxCapacity. 0 = no
	// queue. If Limit is 0 (unlimited), requests are queued only because of CostLimit or
	// Brake.
	Capacity int
	// CapacityPerSlot replaces Capacity: the queue capacity is this number times the
	// current limit, so that a lower limit does not make the queueing time longer. 0 =
	// off.
	CapacityPerSlot int
	// Fair orders queued requests by Class and Key instead of strict FIFO. Class and Key
	// then also determine which request a full queue sheds.
	Fair bool
	// ShedStanding rejects the oldest requests of a queue that has stopped draining,
	// before their clients disconnect (see standingQueue). It has no effect with Fair,
	// which sheds by another rule.
	ShedStanding bool
	// CostLimit limits the sum of the costs (Waiter.SetCost) of the requests in flight,
	// up to MaxCost units; 0 = off. A request that costs more than the limit is admitted
	// when no other request is in flight. The next request in order waits until enough
	// units are free, and later requests do not overtake it.
	CostLimit int
	// Brake limits further admissions to the number that SetRoom sets. While no other
	// request is in flight, one request is admitted regardless of that number.
	Brake bool
	// Clock returns the time in ns for Fair and ShedStanding; nil = the system's clock.
	// Only New reads it: Configure ignores it.
	Clock func() int64
}

// The states of a Waiter and their transitions. If a waiter is idle or admitted, only its
// owner may change the state.
//
//	idle, admitted → admitted   Acquire found a free slot
//	idle, admitted → queued     Acquire found no free slot
//	idle, admitted → idle       Acquire rejected the request
//	queued         → admitted   Release handed its slot over
//	queued         → idle       Withdraw
//	queued         → shed       another request took the position in a full queue (Fair)
//	queued         → expired    the queue has stopped draining (ShedStanding)
//	shed, expired  → idle       Withdraw
//
// All transitions from queued happen under Controller.mu, so exactly one of them takes
// place.
const (
	waiterIdle uint32 = iota
	waiterQueued
	waiterAdmitted
	waiterShed
	waiterExpired
)

// Waiter is the queue entry of one request. Embed it by value in the object that waits,
// and reuse it for each request. While it is queued, do not copy it and do not use it
// with another Controller. Acquire and Withdraw must not run concurrently on the same
// Waiter.
type Waiter struct {
	// Notify is called once each time a queued waiter is granted a slot, shed or expired.
	// It runs without locks held, on the goroutine whose call ended the wait, and must
	// not block. Set it before Acquire. The call may come late: the owner may already
	// have learned of the slot from Admitted or Withdraw, and may have queued the Waiter
	// again.
	Notify func()

	// Class and Key determine the order with Config.Fair. Set them before Acquire.
	// Class 0 is served first, Classes-1 last. Keys of the same class share the slots
	// fairly.
	Key   uint64
	Class uint8
	// units is the cost of the request, little-endian. SetCost sets it. It is 0 again
	// after the request has been rejected or withdrawn, or after Charge. An array of
	// three bytes keeps the size of a Waiter small.
	units [3]byte
	state atomic.Uint32

	list.Node[Waiter] // guarded by Controller.mu, like the next three fields

	flow      *flow // flow in which w is queued, or from which it was granted; nil = none
	grantedAt int64 // time of the grant (if Fair), or of queueing (if ShedStanding)
	charged   int64 // service in ns that the flow was charged at the grant; see Charge
}

// Admitted reports whether the latest Acquire led to a slot, immediately or after
// queueing. It becomes true before Notify is called. It stays true after Release, until
// the next Acquire. It may be called from any goroutine.
func (w *Waiter) Admitted() bool { return w.state.Load() == waiterAdmitted }

// Shed reports whether w was removed from a full queue in favor of another request. w
// then has neither a slot nor a queue position. Notify is called as for a grant.
func (w *Waiter) Shed() bool { return w.state.Load() == waiterShed }

// Expired reports whether w was removed because the queue has stopped draining
// (Config.ShedStanding). w then has neither a slot nor a queue position. Notify is called
// as for a grant.
func (w *Waiter) Expired() bool { return w.state.Load() == waiterExpired }

// SetCost sets the cost of the next request in units. Values outside the range from 1 to
// MaxCost are clamped. Call it before Acquire. Without Config.CostLimit it has no effect.
func (w *Waiter) SetCost(n int64) { w.setUnits(min(max(n, 1), MaxCost)) }

func (w *Waiter) setUnits(n int64) { w.units = [3]byte{byte(n), byte(n >> 8), byte(n >> 16)} }

// cost returns the units that SetCost has set.
func (w *Waiter) cost() int64 {
	return int64(w.units[0]) | int64(w.units[1])<<8 | int64(w.units[2])<<16
}

// reject returns w to the state idle. w holds neither a slot nor units.
func (w *Waiter) reject() {
	w.setUnits(0)
	w.setState(waiterIdle)
}

// setState sets the state. It skips the atomic write if the state equals that of the
// previous request.
func (w *Waiter) setState(state uint32) {
	if w.state.Load() != state {
		w.state.Store(state)
	}
}

const (
	oneInFlight  uint64 = 1
	oneWaiting   uint64 = 1 << 32
	inFlightMask uint64 = oneWaiting - 1
	waitingShift        = 32
)

// Controller bounds the number of requests in flight and the number of queued requests. A
// released slot goes directly to a queued request, in strict FIFO order or in the order
// of Config.Fair, so new requests cannot overtake queued ones. All methods may be called
// from any goroutine.
type Controller struct {
	// word packs both counts, so that one compare-and-swap updates both:
	//
	//	bits  0 to 31  in flight: at most the highest limit so far (1<<20); in the unlimited mode bounded by memory, far below 1<<31
	//	bits 32 to 63  queued: at most the highest capacity so far (1<<24)
	//
	// Neither count can overflow into the other. Before a count is incremented, it is
	// compared with its bound, and before it is decremented, with 0.
	//
	// While requests are queued, word changes only under mu. If bounds has meteredBit,
	// word always changes only under mu.
	word atomic.Uint64

	// bounds changes only under mu. Always read word first and bounds second: a goroutine
	// that sees a queued waiter in word then sees the bounds under which that waiter was
	// queued, or newer bounds.
	bounds atomic.Uint64 // value of type bounds

	// While mu is free, fifo and fair together hold exactly the queued waiters that word
	// counts.
	mu    sync.Mutex
	fifo  fifo       // waiters queued in strict FIFO order
	fair  *fairQueue // waiters queued with Config.Fair; nil until first needed
	clock func() int64

	standing standingQueue // decides which waiters of fifo to reject (Config.ShedStanding)

	quota quota         // guarded by mu; applies if meteredBit is set
	busy  chan struct{} // see Busy

	drain drainRate
}

// bounds packs limit, capacity and order into one word, so that a decision without the
// lock never mixes two configurations:
//
//	bits  0 to 31  concurrency limit, up to 1<<20; noLimit in the unlimited mode
//	bits 32 to 56  queue capacity, up to 1<<24; with perSlotBit, the capacity per slot
//	bit  60        meteredBit: all decisions take the lock and respect the quota
//	bit  61        shedStandingBit: Config.ShedStanding
//	bit  62        perSlotBit
//	bit  63        fairBit: the queue is fair, not strict FIFO
type bounds uint64

const (
	limitMask       bounds = 1<<32 - 1
	noLimit         bounds = 1 << 31 // above any possible number of requests in flight
	capacityShift          = 32
	capacityMask    bounds = 1<<25 - 1
	meteredBit      bounds = 1 << 60
	shedStandingBit bounds = 1 << 61
	perSlotBit      bounds = 1 << 62
	fairBit         bounds = 1 << 63
)

// newBounds packs the limit, the capacity and the order of c. It panics if a bound is
// negative or above its maximum.
func newBounds(c Config) bounds {
	if c.Limit < 0 || c.Limit > MaxLimit {
		panic(fmt.Sprintf("BUG: concurrency limit %d is not within 0 and %d", c.Limit, MaxLimit))
	}
	if c.Capacity < 0 || c.Capacity > MaxCapacity {
		panic(fmt.Sprintf("BUG: queue capacity %d is not within 0 and %d", c.Capacity, MaxCapacity))
	}
	if c.CapacityPerSlot < 0 || c.CapacityPerSlot > MaxCapacity/MaxLimit {
		panic(fmt.Sprintf("BUG: queue capacity per slot %d is not within 0 and %d", c.CapacityPerSlot, MaxCapacity/MaxLimit))
	}
	if c.CostLimit < 0 || c.CostLimit > MaxCost {
		panic(fmt.Sprintf("BUG: cost limit %d is not within 0 and %d", c.CostLimit, MaxCost))
	}
	b := bounds(c.Capacity) << capacityShift
	if c.CapacityPerSlot > 0 {
		b = bounds(c.CapacityPerSlot)<<capacityShift | perSlotBit
	}
	if c.CostLimit > 0 || c.Brake {
		b |= meteredBit
	}
	switch {
	case c.Fair:
		b |= fairBit
	case c.ShedStanding:
		b |= shedStandingBit
	}
	return b.withLimit(c.Limit)
}

// withLimit returns b with another limit; 0 = unlimited.
func (b bounds) withLimit(n int) bounds {
	if n == 0 {
		return b&^limitMask | noLimit
	}
	return b&^limitMask | bounds(n)
}

// limit returns the concurrency limit; noLimit = unlimited.
func (b bounds) limit() uint64 { return uint64(b & limitMask) }

func (b bounds) isFair() bool    { return b&fairBit != 0 }
func (b bounds) isMetered() bool { return b&meteredBit != 0 }

// capacity returns the queue capacity. With perSlotBit it depends on the limit in b.
func (b bounds) capacity() uint64 {
	n := uint64(b >> capacityShift & capacityMask)
	switch {
	case b&perSlotBit == 0:
		return n
	case b.limit() == uint64(noLimit):
		return 0 // without a concurrency limit there are no slots to multiply by
	}
	return n * b.limit()
}

// New creates a Controller. It panics if a bound is negative or above its maximum;
// validate the configuration before.
func New(c Config) *Controller {
	a := &Controller{clock: c.Clock, busy: make(chan struct{}, 1)}
	if a.clock == nil {
		start := time.Now()
		a.clock = func() int64 { return int64(time.Since(start)) }
	}
	a.bounds.Store(uint64(newBounds(c)))
	a.quota.configure(c)
	if c.Fair {
		a.fair = newFairQueue(a.clock, c.CostLimit > 0)
	}
	return a
}

func (a *Controller) current() bounds { return bounds(a.bounds.Load()) }

// Acquire takes a slot, queues w, or rejects the request. It never blocks. The caller
// must Release the slot, whether it was free or is granted later. Acquire panics if w is
// already queued, or if w must be queued but has no Notify.
func (a *Controller) Acquire(w *Waiter) Decision {
	if a.TryAcquire() {
		w.setUnits(0)
		w.setState(waiterAdmitted)
		return Admitted
	}
	return a.acquireSlow(w)
}

// TryAcquire takes a slot if one is free, which implies that the queue is empty. If it
// returns true, the caller must call Release. With CostLimit or Brake it always returns
// false: use Acquire.
func (a *Controller) TryAcquire() bool {
	for {
		word := a.word.Load()
		if b := a.current(); word&inFlightMask >= b.limit() || b.isMetered() {
			return false
		}
		if a.word.CompareAndSwap(word, word+oneInFlight) {
			return true
		}
	}
}

// acquireSlow is Acquire after TryAcquire found no free slot.
func (a *Controller) acquireSlow(w *Waiter) Decision {
	if w.state.Load() == waiterQueued {
		panic("BUG: Acquire with a waiter that is already queued")
	}
	// Reject without the lock, so that overload does not slow down admitted requests.
	word := a.word.Load()
	b := a.current()
	if !b.isFair() && !b.isMetered() && b.exhausted(word) {
		w.reject()
		return Rejected
	}
	if w.Notify == nil && !b.isMetered() {
		panic("BUG: Acquire has to queue a waiter without Notify")
	}

	a.mu.Lock()
	decision, calls := a.acquireLocked(w)
	a.mu.Unlock()
	calls.run()
	return decision
}

// acquireLocked is Acquire for a caller that holds mu. The caller must unlock mu and then
// make the returned Notify calls. They notify a waiter that w has replaced in the queue,
// and waiters that the quota now admits.
func (a *Controller) acquireLocked(w *Waiter) (Decision, notices) {
	b := a.current()
	if b.isMetered() {
		return a.acquireMetered(b, w)
	}
	for {
		word := a.word.Load()
		switch {
		case b.exhausted(word):
			return a.replace(b, w)
		case word&inFlightMask < b.limit(): // a slot was released after TryAcquire failed
			if a.word.CompareAndSwap(word, word+oneInFlight) {
				w.setUnits(0)
				w.setState(waiterAdmitted)
				return Admitted, notices{}
			}
		case a.word.CompareAndSwap(word, word+oneWaiting):
			w.state.Store(waiterQueued)
			a.push(w)
			return Queued, notices{}
		}
	}
}

// replace queues w in a full queue in place of the waiter that Config.Fair sheds. If no
// waiter is shed, it rejects w. The caller holds mu.
func (a *Controller) replace(b bounds, w *Waiter) (d Decision, calls notices) {
	if b.isFair() && b.capacity() > 0 {
		if victim := a.fair.shed(w); victim != nil {
			calls.add(victim.Notify) // copy Notify now: after the next line the owner may reuse victim
			victim.state.Store(waiterShed)
			w.state.Store(waiterQueued)
			a.fair.push(w)
			return Queued, calls
		}
	}
	w.reject()
	return Rejected, calls
}

// exhausted reports whether all slots are taken and the queue is full, according to the
// counts in word.
func (b bounds) exhausted(word uint64) bool {
	return word&inFlightMask >= b.limit() && word>>waitingShift >= b.capacity()
}

// Withdraw ends the wait of w. It returns true if w was queued, shed or expired: w has no
// slot and will not be granted one. It returns false if w was already admitted: the
// caller holds a slot, and a call of Notify may still be running. Withdraw is valid after
// an Acquire that did not reject, and before the Release of the slot. It panics if w is
// neither queued nor admitted.
func (a *Controller) Withdraw(w *Waiter) bool {
	if w.Admitted() {
		return false
	}
	withdrawn, calls := a.withdraw(w)
	calls.run()
	return withdrawn
}

// withdraw acquires mu and withdraws w. The caller then runs calls without the lock.
func (a *Controller) withdraw(w *Waiter) (withdrawn bool, calls notices) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w.state.Load() {
	case waiterQueued:
		a.remove(w)
		a.word.Sub(oneWaiting)
		w.reject()
		if a.current().isMetered() {
			// The next waiter may need fewer units than w.
			calls = a.grantMetered()
		}
		return true, calls
	case waiterShed, waiterExpired:
		w.reject()
		return true, calls
	case waiterAdmitted:
		return false, calls
	}
	panic("BUG: Withdraw of a waiter that is neither queued nor admitted")
}

// Release releases a slot. If requests are queued, the slot passes directly to the next
// one, and its Notify is called before Release returns. If more requests are in flight
// than a lowered limit allows, no request receives the slot. Release panics and changes
// nothing if no request is in flight.
func (a *Controller) Release() {
	for {
		word := a.word.Load()
		switch {
		case a.current().isMetered():
			if a.releaseMetered() {
				return
			}
		case word >= oneWaiting:
			if a.handOver() {
				return
			}
		case word == 0:
			panic("BUG: Release without Acquire")
		case a.word.CompareAndSwap(word, word-oneInFlight):
			return
		}
	}
}

// handOver passes the caller's slot to the next queued waiter. If more slots are held
// than a lowered limit allows, it drops the slot instead.
//
// If no waiter is queued any more, or if Configure has set meteredBit in the meantime,
// handOver returns false. The caller then still holds the slot, and Release tries again.
func (a *Controller) handOver() bool {
	a.mu.Lock()
	if a.current().isMetered() {
		a.mu.Unlock()
		return false
	}
	if word := a.word.Load(); word >= oneWaiting && word&inFlightMask > a.current().limit() {
		a.word.Sub(oneInFlight)
		a.mu.Unlock()
		return true
	}
	shed := a.shedStanding()
	w := a.pop()
	if w == nil {
		a.mu.Unlock()
		return false
	}
	a.word.Sub(oneWaiting)
	notify := w.Notify // copy Notify now: once the state is set, the owner may reuse w
	w.setUnits(0)
	w.state.Store(waiterAdmitted)
	a.mu.Unlock()

	for _, shedNotify := range shed {
		shedNotify()
	}
	notify()
	return true
}

// shedStanding removes the oldest requests from a queue that has stopped draining, and
// returns their Notify functions. Call it when a slot is about to be granted. The caller
// holds mu.
func (a *Controller) shedStanding() (shed []func()) {
	if a.current()&shedStandingBit == 0 {
		return nil
	}
	now, limit := a.clock(), a.Limit()
	a.standing.advance(now, a.QueueDepth(), limit)
	for w := a.fifo.First(); w != nil && a.standing.rejects(now-w.grantedAt, a.QueueDepth(), limit); w = a.fifo.First() {
		a.fifo.Remove(w)
		a.word.Sub(oneWaiting)
		shed = append(shed, w.Notify) // copy Notify now: after the next line the owner may reuse w
		w.state.Store(waiterExpired)
	}
	return shed
}

// SetLimit changes the concurrency limit; n is from 1 to MaxLimit. A higher limit grants
// the additional slots to queued requests first. A lower limit takes effect as slots are
// released. SetLimit panics in the unlimited mode.
func (a *Controller) SetLimit(n int) {
	if n < 1 || n > MaxLimit {
		panic(fmt.Sprintf("BUG: concurrency limit %d is not within 1 and %d", n, MaxLimit))
	}
	calls := a.setBounds(func(b bounds) bounds {
		if b.limit() == uint64(noLimit) {
			panic("BUG: SetLimit in the unlimited mode")
		}
		return b.withLimit(n)
	})
	calls.run()
}

// Configure replaces the configuration in one step, except Clock. It panics if a bound is
// negative or above its maximum.
//
// Requests in flight keep their slots. If they were admitted without a CostLimit, they do
// not count towards a new CostLimit. A higher concurrency limit grants the additional
// slots to queued requests first. A lower one takes effect as slots are released.
//
// Queued requests stay queued, even if the new capacity is lower. If the order changes
// between FIFO and Fair, requests that are already queued are served before later ones.
func (a *Controller) Configure(c Config) {
	next := newBounds(c)
	calls := a.setBounds(func(bounds) bounds {
		a.quota.configure(c)
		if a.fair != nil {
			a.fair.chargeBy(c.CostLimit > 0)
		}
		return next
	})
	calls.run()
}

// setBounds replaces the bounds by the result of update. The caller must not hold mu, and
// must make the returned Notify calls.
func (a *Controller) setBounds(update func(bounds) bounds) (calls notices) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := update(a.current())
	if b.isFair() && a.fair == nil {
		a.fair = newFairQueue(a.clock, a.quota.costLimit > 0)
	}
	if b&shedStandingBit != 0 && a.current()&shedStandingBit == 0 {
		// The arrival time of waiters queued before this change was not recorded, so they
		// seem to have waited longer than standingTarget. That does no harm: no waiter is
		// rejected before the first window ends, and by then they have really waited
		// longer, because a window is longer than standingTarget.
		a.standing.began(a.clock())
	}
	if b.isMetered() {
		a.bounds.Store(uint64(b)) // b has meteredBit: from here on, all decisions take mu
		return a.grantMetered()
	}
	// Grant the additional slots to queued requests before other goroutines can see the
	// new bounds. With the old bounds, new requests find no free slot.
	for a.word.Load()&inFlightMask < b.limit() {
		w := a.pop()
		if w == nil {
			break
		}
		a.word.Sub(oneWaiting - oneInFlight)
		calls.add(w.Notify)
		w.setUnits(0)
		w.state.Store(waiterAdmitted)
	}
	a.bounds.Store(uint64(b))
	return calls
}

// Charge records that the request of w has ended. Call it before the Release of its slot.
// The effect depends on the configuration:
//
//   - With Config.CostLimit, the cost of the request no longer counts towards the limit.
//   - With Config.Fair and without CostLimit, the queue has charged the flow of w an
//     estimated service time when it granted the slot. Charge replaces the estimate by
//     the time since the grant. It does nothing if w was admitted without queueing.
//   - Otherwise Charge does nothing.
func (a *Controller) Charge(w *Waiter) {
	if w.flow == nil && w.units == [3]byte{} {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.flow != nil {
		a.fair.charge(w)
	}
	a.quota.units -= w.cost()
	w.setUnits(0)
}

// push appends w to the queue. The caller holds mu and has already counted w in word.
func (a *Controller) push(w *Waiter) {
	if a.current().isFair() {
		a.fair.push(w)
		return
	}
	w.flow = nil
	if a.current()&shedStandingBit != 0 {
		w.grantedAt = a.clock()
		if a.fifo.First() == nil {
			a.standing.began(w.grantedAt)
		}
	}
	a.fifo.Push(w)
}

// pop removes and returns the next waiter; nil = the queue is empty. Requests queued
// before a change of order are served first. The caller holds mu, and subtracts the
// waiter from the number of queued requests in a.word.
func (a *Controller) pop() (w *Waiter) {
	isFair := a.current().isFair()
	if !isFair && a.fair != nil {
		w = a.fair.pop()
	}
	if w == nil {
		if w = a.fifo.First(); w != nil {
			a.fifo.Remove(w)
		}
	}
	if w == nil && isFair {
		w = a.fair.pop()
	}
	if w != nil {
		a.drain.granted.Inc()
	}
	return w
}

// remove removes w from the queue. The caller holds mu and updates the count in word.
func (a *Controller) remove(w *Waiter) {
	if w.flow != nil {
		a.fair.remove(w)
	} else {
		a.fifo.Remove(w)
	}
}

// InFlight returns the number of slots held.
func (a *Controller) InFlight() int { return int(a.word.Load() & inFlightMask) }

// QueueDepth returns the number of queued requests.
func (a *Controller) QueueDepth() int { return int(a.word.Load() >> waitingShift) }

// Limit returns the concurrency limit; 0 = unlimited.
func (a *Controller) Limit() int {
	if n := a.current().limit(); n != uint64(noLimit) {
		return int(n)
	}
	return 0
}

// Capacity returns the queue capacity at the current limit.
func (a *Controller) Capacity() int { return int(a.current().capacity()) }

// fifo is a list of waiters, longest wait first.
type fifo = list.List[Waiter, *Waiter]
