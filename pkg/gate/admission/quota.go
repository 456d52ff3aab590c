package admission

// MaxCost is the highest cost of a request and the highest Config.CostLimit, in units.
const MaxCost = 1<<24 - 1

const (
	// NoRoom is a value for SetRoom. No request is admitted while another is in flight.
	NoRoom int64 = -1 << 40
	// AnyRoom is a value for SetRoom. It admits requests as if Config.Brake were off.
	AnyRoom int64 = 1 << 40
)

// quota holds the conditions of admission besides the concurrency limit: units
// (Config.CostLimit) and room in the upstream (Config.Brake). Controller.mu guards it.
type quota struct {
	costLimit int64  // 0 = off
	units     int64  // units held by requests in flight
	brake     bool   // Config.Brake is set: room limits admissions
	room      int64  // number of requests that may still be admitted; see SetRoom
	admitted  uint64 // number of requests admitted so far; see Admissions
}

func (q *quota) configure(c Config) { q.costLimit, q.brake = int64(c.CostLimit), c.Brake }

// admits reports whether w may join the requests in flight.
func (q *quota) admits(w *Waiter) bool {
	if q.brake && q.room <= 0 {
		return false
	}
	return q.costLimit == 0 || q.units == 0 || q.units+w.cost() <= q.costLimit
}

// begin updates units, room and admitted after the admission of w.
func (q *quota) begin(w *Waiter) {
	q.admitted++
	q.room--
	if q.costLimit == 0 {
		w.setUnits(0)
		return
	}
	w.SetCost(w.cost())
	q.units += w.cost()
}

// admits reports whether w may be admitted. The parameter word has the counts of
// requests in flight and queued. The caller holds mu.
func (a *Controller) admits(b bounds, word uint64, w *Waiter) bool {
	inFlight := word & inFlightMask
	return inFlight == 0 || inFlight < b.limit() && a.quota.admits(w)
}

// acquireMetered is Acquire with a quota. The caller holds mu.
func (a *Controller) acquireMetered(b bounds, w *Waiter) (Decision, notices) {
	word := a.word.Load()
	waiting := word >> waitingShift
	if waiting == 0 && a.admits(b, word, w) {
		a.word.Add(oneInFlight)
		a.quota.begin(w)
		w.flow = nil
		w.setState(waiterAdmitted)
		if a.quota.brake && word == 0 {
			select {
			case a.busy <- struct{}{}:
			default:
			}
		}
		return Admitted, notices{}
	}
	if w.Notify == nil {
		a.mu.Unlock()
		panic("BUG: Acquire has to queue a waiter without Notify")
	}
	if waiting >= b.capacity() {
		d, calls := a.replace(b, w)
		if d == Queued {
			calls.append(a.grantMetered()) // the next waiter has changed, and may need fewer units
		}
		return d, calls
	}
	a.word.Add(oneWaiting)
	w.state.Store(waiterQueued)
	a.push(w)
	return Queued, a.grantMetered() // in a fair queue, w may now be the next one
}

// releaseMetered is Release for a Controller with a quota. If Configure has removed the
// quota in the meantime, it changes nothing and returns false.
func (a *Controller) releaseMetered() bool {
	a.mu.Lock()
	if !a.current().isMetered() {
		a.mu.Unlock()
		return false
	}
	if a.word.Load()&inFlightMask == 0 {
		a.mu.Unlock()
		panic("BUG: Release without Acquire")
	}
	a.word.Sub(oneInFlight)
	calls := a.grantMetered()
	a.mu.Unlock()
	calls.run()
	return true
}

// grantMetered admits queued requests in order. It stops at the first request that the
// bounds or the quota do not admit. The caller holds mu.
func (a *Controller) grantMetered() (calls notices) {
	b := a.current()
	for {
		w := a.next()
		if w == nil || !a.admits(b, a.word.Load(), w) {
			return calls
		}
		if shed := a.shedStanding(); len(shed) > 0 {
			for _, notify := range shed {
				calls.add(notify)
			}
			continue // check the new next waiter
		}
		a.pop()
		a.word.Sub(oneWaiting - oneInFlight)
		a.quota.begin(w)
		calls.add(w.Notify) // copy Notify now: after the next line the owner may reuse w
		w.state.Store(waiterAdmitted)
	}
}

// next returns the waiter that pop would return. The caller holds mu.
func (a *Controller) next() (w *Waiter) {
	isFair := a.current().isFair()
	if !isFair && a.fair != nil {
		w = a.fair.next()
	}
	if w == nil {
		w = a.fifo.First()
	}
	if w == nil && isFair {
		w = a.fair.next()
	}
	return w
}

// SetRoom sets the room for Config.Brake, which is the number of further requests that
// may be admitted until the next call of SetRoom. Requests that end do not change it. The
// parameter n is the measured room. The parameter admissions is the value of Admissions at
// the time of the measurement. SetRoom subtracts from n the number of requests admitted
// after the measurement, because they have used up part of it. While no request is in
// flight, one request is admitted regardless of the room.
func (a *Controller) SetRoom(n int64, admissions uint64) {
	a.mu.Lock()
	a.quota.room = n - int64(a.quota.admitted-admissions)
	var calls notices
	if a.current().isMetered() {
		calls = a.grantMetered()
	}
	a.mu.Unlock()
	calls.run()
}

// Admissions returns the number of requests admitted with Config.CostLimit or
// Config.Brake since the start.
func (a *Controller) Admissions() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.quota.admitted
}

// Busy returns a channel that tells when an idle Controller becomes busy. It receives a
// value when a request is admitted with Config.Brake while no other request is queued
// or in flight. When the value arrives, InFlight already counts the request. The
// channel buffers one value; further values are dropped.
func (a *Controller) Busy() <-chan struct{} { return a.busy }

// Units returns the units held by requests in flight, and the limit Config.CostLimit.
func (a *Controller) Units() (used, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.quota.units), int(a.quota.costLimit)
}

// Scarce reports whether a request may have to wait for a slot, for units or for room.
func (a *Controller) Scarce() bool {
	b := a.current()
	return b.limit() != uint64(noLimit) || b.isMetered()
}

// notices is a list of Notify calls, to be made in order and without locks held. The
// first one needs no allocation.
type notices struct {
	first func()
	more  []func()
}

func (n *notices) add(notify func()) {
	if n.first == nil {
		n.first = notify
		return
	}
	n.more = append(n.more, notify)
}

func (n *notices) append(m notices) {
	if m.first == nil {
		return
	}
	n.add(m.first)
	n.more = append(n.more, m.more...)
}

func (n *notices) run() {
	if n.first != nil {
		n.first()
	}
	for _, notify := range n.more {
		notify()
	}
}
