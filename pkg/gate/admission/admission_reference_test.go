package admission

import (
	"fmt"
	"slices"
	"sync"
)

// admission is the interface of the implementations under test.
type admission interface {
	Acquire(w *Waiter) Decision
	TryAcquire() bool
	Withdraw(w *Waiter) bool
	Release()
	InFlight() int
	QueueDepth() int
	Limit() int
	Capacity() int

	// waits reports whether w is queued. It first waits for a hand-over in progress.
	waits(w *Waiter) bool
}

var implementations = []struct {
	name string
	make func(Config) admission
}{
	{"Controller", func(c Config) admission { return New(c) }},
	{"fair with one key", func(c Config) admission {
		c.Fair = true
		return New(c)
	}},
	{"reference", func(c Config) admission { return newReferenceAdmission(c) }},
}

func (a *Controller) waits(w *Waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return w.state.Load() == waiterQueued
}

// referenceAdmission implements admission with one mutex.
type referenceAdmission struct {
	limit, capacity int

	mu       sync.Mutex
	inFlight int
	queue    []*Waiter
}

func newReferenceAdmission(c Config) *referenceAdmission {
	return &referenceAdmission{limit: c.Limit, capacity: c.Capacity}
}

func (a *referenceAdmission) Acquire(w *Waiter) Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case slices.Contains(a.queue, w):
		panic("BUG: queued already")
	case a.limit == 0 || a.inFlight < a.limit:
		a.inFlight++
		w.state.Store(waiterAdmitted)
		return Admitted
	case len(a.queue) >= a.capacity:
		w.state.Store(waiterIdle)
		return Rejected
	case w.Notify == nil:
		panic("BUG: no Notify")
	}
	a.queue = append(a.queue, w)
	w.state.Store(waiterQueued)
	return Queued
}

func (a *referenceAdmission) TryAcquire() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limit != 0 && a.inFlight >= a.limit {
		return false
	}
	a.inFlight++
	return true
}

func (a *referenceAdmission) Withdraw(w *Waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.queue, w); i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
		w.state.Store(waiterIdle)
		return true
	}
	if !w.Admitted() {
		panic("BUG: neither queued nor admitted")
	}
	return false
}

func (a *referenceAdmission) Release() {
	a.mu.Lock()
	if a.inFlight == 0 {
		a.mu.Unlock()
		panic("BUG: Release without Acquire")
	}
	if len(a.queue) == 0 {
		a.inFlight--
		a.mu.Unlock()
		return
	}
	w := a.queue[0]
	a.queue = slices.Delete(a.queue, 0, 1)
	notify := w.Notify
	w.state.Store(waiterAdmitted)
	a.mu.Unlock()
	notify()
}

func (a *referenceAdmission) InFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inFlight
}

func (a *referenceAdmission) QueueDepth() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

func (a *referenceAdmission) Limit() int    { return a.limit }
func (a *referenceAdmission) Capacity() int { return a.capacity }

func (a *referenceAdmission) waits(w *Waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.queue, w)
}

// admissionModel is the sequential reference: plain lists, with waiters identified by
// their index.
type admissionModel struct {
	limit, capacity int
	anonymous       int   // slots taken by TryAcquire
	holders         []int // admitted, in order of admission
	queue           []int
}

func (m *admissionModel) inFlight() int { return m.anonymous + len(m.holders) }

func (m *admissionModel) free() bool { return m.limit == 0 || m.inFlight() < m.limit }

// admissionSchedule runs operations on an implementation and the model. pick(n) chooses the
// next of n possibilities.
type admissionSchedule struct {
	a        admission
	model    admissionModel
	waiters  []*Waiter
	notified []int // waiters notified during this step
	trace    []string
}

func newAdmissionSchedule(a admission, waiters int) *admissionSchedule {
	s := &admissionSchedule{a: a, model: admissionModel{limit: a.Limit(), capacity: a.Capacity()}}
	for i := range waiters {
		w := &Waiter{}
		w.Notify = func() {
			if !w.Admitted() {
				s.trace = append(s.trace, fmt.Sprintf("notify %d before its state was published", i))
				return
			}
			s.notified = append(s.notified, i)
		}
		s.waiters = append(s.waiters, w)
	}
	return s
}

// step runs one operation. It returns an error if implementation and model differ.
func (s *admissionSchedule) step(pick func(n int) int) error {
	m := &s.model
	s.notified = s.notified[:0]
	var granted []int
	var got, want any
	operation := pick(2*len(s.waiters) + 3)
	i := operation % max(len(s.waiters), 1)
	switch {
	case operation < len(s.waiters):
		s.trace = append(s.trace, fmt.Sprintf("begin %d", i))
		switch {
		case slices.Contains(m.queue, i):
			got, want = panics(func() { s.a.Acquire(s.waiters[i]) }), true
		case slices.Contains(m.holders, i):
			return nil // still in use by its previous request
		case m.free():
			got, want = s.a.Acquire(s.waiters[i]), Admitted
			m.holders = append(m.holders, i)
		case len(m.queue) < m.capacity:
			got, want = s.a.Acquire(s.waiters[i]), Queued
			m.queue = append(m.queue, i)
		default:
			got, want = s.a.Acquire(s.waiters[i]), Rejected
		}
	case operation < 2*len(s.waiters):
		s.trace = append(s.trace, fmt.Sprintf("withdraw %d", i))
		switch {
		case slices.Contains(m.queue, i):
			got, want = s.a.Withdraw(s.waiters[i]), true
			m.queue = slices.DeleteFunc(m.queue, func(j int) bool { return j == i })
		case slices.Contains(m.holders, i):
			got, want = s.a.Withdraw(s.waiters[i]), false
		case !s.waiters[i].Admitted():
			got, want = panics(func() { s.a.Withdraw(s.waiters[i]) }), true
		}
	case operation == 2*len(s.waiters):
		s.trace = append(s.trace, "try")
		got, want = s.a.TryAcquire(), m.free()
		if want == true {
			m.anonymous++
		}
	default:
		s.trace = append(s.trace, "end")
		switch holder := pick(max(m.inFlight(), 1)); {
		case m.inFlight() == 0:
			got, want = panics(s.a.Release), true
		default:
			s.a.Release()
			if holder < len(m.holders) {
				m.holders = slices.Delete(m.holders, holder, holder+1)
			} else {
				m.anonymous--
			}
			if len(m.queue) > 0 {
				granted = m.queue[:1:1]
				m.holders = append(m.holders, m.queue[0])
				m.queue = m.queue[1:]
			}
		}
	}
	switch {
	case got != want:
		return fmt.Errorf("got %v, want %v; after %q", got, want, s.trace)
	case !slices.Equal(s.notified, granted):
		return fmt.Errorf("notified %v, want %v; after %q", s.notified, granted, s.trace)
	case s.a.InFlight() != m.inFlight() || s.a.QueueDepth() != len(m.queue):
		return fmt.Errorf("%d in flight, %d queued, want %d and %d; after %q", s.a.InFlight(), s.a.QueueDepth(), m.inFlight(), len(m.queue), s.trace)
	}
	for i, w := range s.waiters {
		if s.a.waits(w) != slices.Contains(m.queue, i) {
			return fmt.Errorf("waiter %d is queued: %v, want the opposite; after %q", i, s.a.waits(w), s.trace)
		}
	}
	return nil
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
