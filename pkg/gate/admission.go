package gate

import (
	"fmt"
	"sync"

	"go.uber.org/atomic"
)

// Verdict is the decision of Admission.Begin.
type Verdict uint8

const (
	// Admitted means that the caller holds a slot and owes an End.
	Admitted Verdict = iota
	// Queued means that the waiter has a place in the queue: its Notify will be
	// called, unless Withdraw takes the place back first.
	Queued
	// Refused means that the caller holds neither slot nor place.
	Refused
)

const (
	// MaxLimit is the highest concurrency limit that NewAdmission takes.
	MaxLimit = 1 << 20
	// MaxCapacity is the highest queue capacity that NewAdmission takes.
	MaxCapacity = 1 << 24
)

// AdmissionConfig is read once, by NewAdmission.
type AdmissionConfig struct {
	// Limit is the most that may be in flight at once, up to MaxLimit. 0 is the
	// unlimited mode: all are admitted and still counted.
	Limit int
	// Capacity is the most that may wait at once, up to MaxCapacity. 0 means
	// that none waits. In the unlimited mode none has to.
	Capacity int
}

// The states of a Waiter. Only its owner moves it out of idle and admitted:
//
//	idle, admitted → admitted   Begin found a free slot
//	idle, admitted → queued     Begin found none
//	idle, admitted → idle       Begin refused
//	queued         → admitted   End handed its slot over
//	queued         → idle       Withdraw
//
// Both moves out of queued happen under Admission.mu, so exactly one of them
// takes place.
const (
	waiterIdle uint32 = iota
	waiterQueued
	waiterAdmitted
)

// Waiter is one place in the queue. It is embedded by value in what waits (a
// connection) and reused from request to request; while queued it must not be
// copied or given to another Admission. One goroutine at a time calls Begin and
// Withdraw on it.
type Waiter struct {
	// Notify is called once for every grant, on the goroutine that called End
	// and outside of any lock. It must not block. Set it before Begin. It says
	// "look at Admitted", no more: the call may come late, after its waiter
	// learned of the slot from Admitted or Withdraw and even after it queued
	// again; and the calls of two waiters may come in either order.
	Notify func()

	next, prev *Waiter // guarded by Admission.mu
	state      atomic.Uint32
}

// Admitted reports whether the latest Begin has led to a slot, at once or after
// waiting. It is published before Notify is called, stays true after End until
// the next Begin, and may be called from any goroutine.
func (w *Waiter) Admitted() bool { return w.state.Load() == waiterAdmitted }

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

// Admission bounds how many requests are in flight and how many wait, in strict
// FIFO order: a slot that is given back goes straight to the
// request that has waited longest, so no newcomer overtakes. All methods may be called from any
// goroutine.
type Admission struct {
	// word packs both counts, so that one compare-and-swap decides on both:
	//
	//	bits  0 to 31  in flight: at most limit (1<<20); in the unlimited mode bounded by memory only, far below 1<<32
	//	bits 32 to 63  waiting: at most capacity (1<<24)
	//
	// Neither count can carry into the other one: with a limit, each is compared
	// with its bound, or with 0, before it moves; without one, none waits, and
	// a borrow shows in the upper bits. If anyone waits, all slots are taken:
	// then the word changes under mu only; while none waits, without it.
	word atomic.Uint64

	limit    uint64 // unlimited, or the most in flight
	capacity uint64

	mu         sync.Mutex
	head, tail *Waiter // those who wait, longest first; as many as the word says whenever mu is free
}

// unlimited is the limit of the mode that only counts.
const unlimited = 0

// NewAdmission panics if a bound is negative or above its maximum: the
// reader of the configuration reports that to the user.
func NewAdmission(c AdmissionConfig) *Admission {
	if c.Limit < 0 || c.Limit > MaxLimit {
		panic(fmt.Sprintf("BUG: concurrency limit %d is not within 0 and %d", c.Limit, MaxLimit))
	}
	if c.Capacity < 0 || c.Capacity > MaxCapacity {
		panic(fmt.Sprintf("BUG: queue capacity %d is not within 0 and %d", c.Capacity, MaxCapacity))
	}
	return &Admission{limit: uint64(c.Limit), capacity: uint64(c.Capacity)}
}

// Begin takes a slot, or a place in the queue for w, or refuses. It never
// blocks. A slot, taken at once or granted later, is given back with End. It
// panics if w is queued already, or has to queue and has no Notify.
func (a *Admission) Begin(w *Waiter) Verdict {
	if a.TryBegin() {
		w.setState(waiterAdmitted)
		return Admitted
	}
	return a.beginFull(w)
}

// TryBegin takes a slot if one is free, which implies that none waits. It
// reports whether the caller now owes an End.
func (a *Admission) TryBegin() bool {
	if a.limit == unlimited {
		a.word.Add(oneInFlight)
		return true
	}
	for {
		word := a.word.Load()
		if word&inFlightMask >= a.limit {
			return false
		}
		if a.word.CompareAndSwap(word, word+oneInFlight) {
			return true
		}
	}
}

// beginFull is Begin after a look that found no free slot.
func (a *Admission) beginFull(w *Waiter) Verdict {
	if w.state.Load() == waiterQueued {
		panic("BUG: begin with a waiter that is queued already")
	}
	// An overload is refused without the lock, so that it cannot slow down
	// those who are served.
	if a.exhausted(a.word.Load()) {
		w.setState(waiterIdle)
		return Refused
	}
	if w.Notify == nil {
		panic("BUG: waiter has to queue and has no Notify")
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		word := a.word.Load()
		switch {
		case a.exhausted(word):
			w.setState(waiterIdle)
			return Refused
		case word&inFlightMask < a.limit: // given back since the first look
			if a.word.CompareAndSwap(word, word+oneInFlight) {
				w.setState(waiterAdmitted)
				return Admitted
			}
		case a.word.CompareAndSwap(word, word+oneWaiting):
			w.state.Store(waiterQueued)
			a.push(w)
			return Queued
		}
	}
}

// exhausted reports whether word leaves neither slot nor place.
func (a *Admission) exhausted(word uint64) bool {
	return word&inFlightMask >= a.limit && word>>waitingShift >= a.capacity
}

// Withdraw gives up waiting. True: w was queued, its place is free, and it will
// not be notified. False: w had been admitted before; the caller holds a slot,
// and a call of Notify may still be under way. It is valid between a Begin that
// did not refuse and the End of its slot, and panics if w is neither queued nor
// admitted.
func (a *Admission) Withdraw(w *Waiter) bool {
	if w.Admitted() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w.state.Load() {
	case waiterQueued:
		a.remove(w)
		w.state.Store(waiterIdle)
		return true
	case waiterAdmitted:
		return false
	}
	panic("BUG: withdraw of a waiter that is neither queued nor admitted")
}

// End gives a slot back. If anyone waits, the slot passes to the head of the
// queue without becoming free in between, and that waiter's Notify is called
// before End returns. It panics, and changes nothing, if nothing is in flight.
func (a *Admission) End() {
	if a.limit == unlimited {
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

// handOver passes the caller's slot to the head of the queue. It reports false
// if all who waited have withdrawn meanwhile.
func (a *Admission) handOver() bool {
	a.mu.Lock()
	w := a.head
	if w == nil {
		a.mu.Unlock()
		return false
	}
	a.remove(w)
	notify := w.Notify // from the next line on w belongs to its owner
	w.state.Store(waiterAdmitted)
	a.mu.Unlock()

	notify()
	return true
}

// push appends w, already counted, to the queue. The caller holds mu.
func (a *Admission) push(w *Waiter) {
	w.prev = a.tail
	if a.tail == nil {
		a.head = w
	} else {
		a.tail.next = w
	}
	a.tail = w
}

// remove takes w out of the queue and out of the count. The caller holds mu.
func (a *Admission) remove(w *Waiter) {
	if w.prev == nil {
		a.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		a.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	a.word.Sub(oneWaiting)
}

// InFlight returns how many hold a slot now.
func (a *Admission) InFlight() int { return int(a.word.Load() & inFlightMask) }

// QueueDepth returns how many wait now.
func (a *Admission) QueueDepth() int { return int(a.word.Load() >> waitingShift) }

// Limit returns the most that may be in flight at once, 0 in the unlimited
// mode.
func (a *Admission) Limit() int { return int(a.limit) }

// Capacity returns the most that may wait at once.
func (a *Admission) Capacity() int { return int(a.capacity) }
