package admission

import (
	"fmt"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/internal/list"
)

// Decision is the result of Controller.Acquire.
type Decision uint8

const (
	// Admitted means that the caller holds a slot and must call Release.
	Admitted Decision = iota
	// Queued means that the waiter has a place in the queue: its Notify will be
	// called, unless Withdraw takes the place back first.
	Queued
	// Rejected means that the caller has neither a slot nor a queue position.
	Rejected
)

const (
	// MaxLimit is the highest concurrency limit that New takes.
	MaxLimit = 1 << 20
	// MaxCapacity is the highest queue capacity that New takes.
	MaxCapacity = 1 << 24
)

// Config is read once, by New.
type Config struct {
	// Limit is the most that may be in flight at once, up to MaxLimit. 0 is the
	// unlimited mode: all are admitted and still counted.
	Limit int
	// Capacity is the most that may wait at once, up to MaxCapacity. 0 means
	// that none waits. In the unlimited mode none has to.
	Capacity int
	// CapacityPerSlot replaces Capacity: the queue capacity is this many times the
	// current limit. A queue that was right for a high limit would be too long for a
	// low one: when a request got its slot, its client would have given up. 0 = off.
	CapacityPerSlot int
	// Fair gives turns by the Class and Key of those who wait, instead of in
	// strict FIFO order, and sheds by them when the queue is full.
	Fair bool
	// Clock is the time in ns that Fair measures service with; nil = the system's.
	Clock func() int64
}

// The states of a Waiter. Only its owner moves it out of idle and admitted:
//
//	idle, admitted → admitted   Acquire found a free slot
//	idle, admitted → queued     Acquire found none
//	idle, admitted → idle       Acquire rejected
//	queued         → admitted   Release handed its slot over
//	queued         → idle       Withdraw
//	queued         → shed       a full queue needed its place for another (Fair only)
//	shed           → idle       Withdraw
//
// All moves out of queued happen under Controller.mu, so exactly one of them
// takes place.
const (
	waiterIdle uint32 = iota
	waiterQueued
	waiterAdmitted
	waiterShed
)

// Waiter is one place in the queue. It is embedded by value in what waits (a
// connection) and reused from request to request; while queued it must not be
// copied or given to another Controller. One goroutine at a time calls Acquire and
// Withdraw on it.
type Waiter struct {
	// Notify is called once for every grant, on the goroutine that called Release
	// and outside of any lock. It must not block. Set it before Acquire. It says
	// "look at Admitted", no more: the call may come late, after its waiter
	// learned of the slot from Admitted or Withdraw and even after it queued
	// again; and the calls of two waiters may come in either order.
	Notify func()

	// Class and Key determine the order with Config.Fair. Set them before Acquire.
	// Class 0 goes first, Classes-1 last; waiters of one class share the slots by
	// Key.
	Key   uint64
	Class uint8
	state atomic.Uint32

	list.Node[Waiter] // guarded by Controller.mu, like the next three fields

	flow      *flow // that it waits in or was granted from; nil = none
	grantedAt int64 // when it got its slot from the queue
	charged   int64 // what its flow was charged for that
}

// Admitted reports whether the latest Acquire has led to a slot, at once or after
// waiting. It is published before Notify is called, stays true after Release until
// the next Acquire, and may be called from any goroutine.
func (w *Waiter) Admitted() bool { return w.state.Load() == waiterAdmitted }

// Shed reports whether the place in the queue was given to another request:
// the waiter holds neither slot nor place. Notify is called as for a slot.
func (w *Waiter) Shed() bool { return w.state.Load() == waiterShed }

// setState sets the state without writing to memory when it is the same as after
// the request before.
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

// Controller bounds how many requests are in flight and how many wait. A slot
// that is given back goes straight to one that waits, so no newcomer overtakes:
// in strict FIFO order or, with Config.Fair, in turns. All methods may
// be called from any goroutine.
type Controller struct {
	// word packs both counts, so that one compare-and-swap decides on both:
	//
	//	bits  0 to 31  in flight: at most the highest limit there has been (1<<20); in the unlimited mode bounded by memory only, far below 1<<32
	//	bits 32 to 63  waiting: at most capacity (1<<24)
	//
	// Neither count can carry into the other one: with a limit, each is compared
	// with its bound, or with 0, before it moves; without one, none waits, and
	// a borrow shows in the upper bits. If anyone waits, all slots are taken:
	// then the word changes under mu only; while none waits, without it.
	word atomic.Uint64

	// limit is unlimited, or the most in flight. It moves under mu only, and is
	// read after the word: a reader that sees a waiter sees a limit that is not
	// older than it.
	limit    atomic.Uint64
	capacity uint64
	perSlot  uint64 // Config.CapacityPerSlot

	mu   sync.Mutex
	fifo fifo       // those who wait; as many as the word says whenever mu is free
	fair *fairQueue // the same in its place; nil = strict FIFO

	drain drainRate
}

// unlimited is the limit of the mode that only counts.
const unlimited = 0

// New panics if a bound is negative or above its maximum: the
// reader of the configuration reports that to the user.
func New(c Config) *Controller {
	if c.Limit < 0 || c.Limit > MaxLimit {
		panic(fmt.Sprintf("BUG: concurrency limit %d is not within 0 and %d", c.Limit, MaxLimit))
	}
	if c.Capacity < 0 || c.Capacity > MaxCapacity {
		panic(fmt.Sprintf("BUG: queue capacity %d is not within 0 and %d", c.Capacity, MaxCapacity))
	}
	if c.CapacityPerSlot < 0 || c.CapacityPerSlot > MaxCapacity/MaxLimit {
		panic(fmt.Sprintf("BUG: queue capacity for each slot %d is not within 0 and %d", c.CapacityPerSlot, MaxCapacity/MaxLimit))
	}
	a := &Controller{capacity: uint64(c.Capacity), perSlot: uint64(c.CapacityPerSlot)}
	a.limit.Store(uint64(c.Limit))
	if c.Fair {
		a.fair = newFairQueue(c.Clock)
	}
	return a
}

// Acquire takes a slot, or a place in the queue for w, or refuses. It never
// blocks. A slot, taken at once or granted later, is given back with Release. It
// panics if w is queued already, or has to queue and has no Notify.
func (a *Controller) Acquire(w *Waiter) Decision {
	if a.TryAcquire() {
		w.setState(waiterAdmitted)
		return Admitted
	}
	return a.acquireSlow(w)
}

// TryAcquire takes a slot if one is free, which implies that none waits. It
// reports whether the caller now has to call Release.
func (a *Controller) TryAcquire() bool {
	if a.limit.Load() == unlimited {
		a.word.Add(oneInFlight)
		return true
	}
	for {
		word := a.word.Load()
		if word&inFlightMask >= a.limit.Load() {
			return false
		}
		if a.word.CompareAndSwap(word, word+oneInFlight) {
			return true
		}
	}
}

// acquireSlow is Acquire after a look that found no free slot.
func (a *Controller) acquireSlow(w *Waiter) Decision {
	if w.state.Load() == waiterQueued {
		panic("BUG: begin with a waiter that is queued already")
	}
	// An overload is refused without the lock, so that it cannot slow down
	// those who are served.
	if a.fair == nil && a.exhausted(a.word.Load()) {
		w.setState(waiterIdle)
		return Rejected
	}
	if w.Notify == nil {
		panic("BUG: waiter has to queue and has no Notify")
	}

	verdict, shed := a.acquireLocked(w)
	if shed != nil {
		shed()
	}
	return verdict
}

// acquireLocked decides under the lock. shed is the Notify of the waiter whose
// place w has got, if any.
func (a *Controller) acquireLocked(w *Waiter) (v Decision, shed func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		word := a.word.Load()
		switch {
		case a.exhausted(word):
			if a.fair != nil && a.Capacity() > 0 {
				if victim := a.fair.shed(w); victim != nil {
					shed = victim.Notify // from the next line on victim belongs to its owner
					victim.state.Store(waiterShed)
					w.state.Store(waiterQueued)
					a.fair.push(w)
					return Queued, shed
				}
			}
			w.setState(waiterIdle)
			return Rejected, nil
		case word&inFlightMask < a.limit.Load(): // given back since the first look
			if a.word.CompareAndSwap(word, word+oneInFlight) {
				w.setState(waiterAdmitted)
				return Admitted, nil
			}
		case a.word.CompareAndSwap(word, word+oneWaiting):
			w.state.Store(waiterQueued)
			a.push(w)
			return Queued, nil
		}
	}
}

// exhausted reports whether word leaves neither slot nor place.
func (a *Controller) exhausted(word uint64) bool {
	limit := a.limit.Load()
	return word&inFlightMask >= limit && word>>waitingShift >= a.capacityAt(limit)
}

// capacityAt is the queue capacity at a limit.
func (a *Controller) capacityAt(limit uint64) uint64 {
	if a.perSlot > 0 {
		return a.perSlot * limit
	}
	return a.capacity
}

// Withdraw gives up waiting. True: w was queued or shed, holds nothing, and will
// not be notified of a slot. False: w had been admitted before; the caller holds a slot,
// and a call of Notify may still be under way. It is valid between an Acquire that
// did not refuse and the Release of its slot, and panics if w is neither queued nor
// admitted.
func (a *Controller) Withdraw(w *Waiter) bool {
	if w.Admitted() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w.state.Load() {
	case waiterQueued:
		a.remove(w)
		a.word.Sub(oneWaiting)
		w.state.Store(waiterIdle)
		return true
	case waiterShed:
		w.state.Store(waiterIdle)
		return true
	case waiterAdmitted:
		return false
	}
	panic("BUG: withdraw of a waiter that is neither queued nor admitted")
}

// Release gives a slot back. If anyone waits, the slot passes on without becoming
// free in between, and that waiter's Notify is called before Release returns, unless
// more are in flight than a limit that has come down allows. It panics, and
// changes nothing, if nothing is in flight.
func (a *Controller) Release() {
	if a.limit.Load() == unlimited {
		if a.word.Sub(oneInFlight) > inFlightMask { // borrowed from the bits of the other count
			a.word.Add(oneInFlight)
			panic("BUG: end without begin")
		}
		return
	}
	for {
		word := a.word.Load()
		switch {
		case word >= oneWaiting:
			if a.handOver() {
				return
			}
		case word == 0:
			panic("BUG: end without begin")
		case a.word.CompareAndSwap(word, word-oneInFlight):
			return
		}
	}
}

// handOver passes the caller's slot to the next in the queue, or gives it up
// where the limit has come down. It reports false if all who waited have
// withdrawn meanwhile.
func (a *Controller) handOver() bool {
	a.mu.Lock()
	if word := a.word.Load(); word >= oneWaiting && word&inFlightMask > a.limit.Load() {
		a.word.Sub(oneInFlight)
		a.mu.Unlock()
		return true
	}
	w := a.pop()
	if w == nil {
		a.mu.Unlock()
		return false
	}
	a.word.Sub(oneWaiting)
	notify := w.Notify // from the next line on w belongs to its owner
	w.state.Store(waiterAdmitted)
	a.mu.Unlock()

	notify()
	return true
}

// SetLimit moves the concurrency limit, within 1 and MaxLimit. Slots that a
// higher one brings go to those who wait first; a lower one takes effect as
// slots are given back. It panics in the unlimited mode.
func (a *Controller) SetLimit(n int) {
	if n < 1 || n > MaxLimit {
		panic(fmt.Sprintf("BUG: concurrency limit %d is not within 1 and %d", n, MaxLimit))
	}
	for _, notify := range a.applyLimit(uint64(n)) {
		notify()
	}
}

// applyLimit returns the Notify of those who got a slot.
func (a *Controller) applyLimit(n uint64) (granted []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limit.Load() == unlimited {
		panic("BUG: a limit for the unlimited mode")
	}
	// The new limit is published last: until then a newcomer finds no free slot.
	for a.word.Load()&inFlightMask < n {
		w := a.pop()
		if w == nil {
			break
		}
		a.word.Sub(oneWaiting - oneInFlight)
		granted = append(granted, w.Notify)
		w.state.Store(waiterAdmitted)
	}
	a.limit.Store(n)
	return granted
}

// Charge tells how long w has held the slot that it got from the queue, so that
// the next turn of its Key comes accordingly. It comes before the Release of that
// slot, and changes nothing without Config.Fair.
func (a *Controller) Charge(w *Waiter) {
	if a.fair == nil || w.flow == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fair.charge(w)
}

// push appends w, already counted, to the queue. The caller holds mu.
func (a *Controller) push(w *Waiter) {
	if a.fair != nil {
		a.fair.push(w)
	} else {
		a.fifo.Push(w)
	}
}

// pop takes out the one whose turn it is, nil if none waits, and leaves the
// count to the caller, who holds mu.
func (a *Controller) pop() *Waiter {
	w := a.fifo.First()
	if a.fair != nil {
		w = a.fair.pop()
	} else if w != nil {
		a.fifo.Remove(w)
	}
	if w != nil {
		a.drain.granted.Inc()
	}
	return w
}

// remove takes w out of the queue, and leaves the count to the caller, who
// holds mu.
func (a *Controller) remove(w *Waiter) {
	if a.fair != nil {
		a.fair.remove(w)
	} else {
		a.fifo.Remove(w)
	}
}

// InFlight returns how many hold a slot now.
func (a *Controller) InFlight() int { return int(a.word.Load() & inFlightMask) }

// QueueDepth returns how many wait now.
func (a *Controller) QueueDepth() int { return int(a.word.Load() >> waitingShift) }

// Limit returns the most that may be in flight at once, 0 in the unlimited
// mode.
func (a *Controller) Limit() int { return int(a.limit.Load()) }

// Capacity returns the most that may wait at once.
func (a *Controller) Capacity() int { return int(a.capacityAt(a.limit.Load())) }

// fifo is a list of waiters, the one that has waited longest first.
type fifo = list.List[Waiter, *Waiter]
