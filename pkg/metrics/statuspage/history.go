package statuspage

import (
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Limits of the history.
const (
	historySeconds = 300
	quietTicks     = 2 // the sampler parks after this many seconds without an event
)

// exactWindows is the number of past windows for which Counting has exact values.
const exactWindows = 2

// Sources are the data sources of a History. Errors and Admission may be nil.
type Sources struct {
	Clock     func() time.Duration // the monotonic clock that Counting uses; began at 0
	Counting  *metrics.Counting
	Requests  *metrics.Requests
	Errors    *Errors
	Admission func() gate.AdmissionStats
}

// States of a History, in the order that Touch relies on:
//
//	parked → fresh   wake: a request or a viewer; the sampler starts
//	fresh  → stale   each second, by the sampler
//	stale  → fresh   wake
//	stale  → parked  after quietTicks seconds without a viewer; the sampler ends
//	any    → closed  Close
const (
	parked uint32 = iota
	stale
	fresh
	closed
)

// History keeps data for each of the last 300 s. It needs about 75 KiB of memory, which
// it allocates when it is used for the first time. All methods may be called
// concurrently. Touch, which each request calls, does nothing on a nil History.
type History struct {
	state    atomic.Uint32
	watchers atomic.Int32
	done     chan struct{}
	running  sync.WaitGroup
	src      Sources

	mu      sync.Mutex
	ring    *ring
	sampled func() // called after each second on the sampler's goroutine
}

// NewHistory returns a parked History.
func NewHistory(src Sources) *History {
	return &History{src: src, done: make(chan struct{}), sampled: func() {}}
}

// Touch is called when a request has begun or ended, after it was counted.
func (h *History) Touch() {
	if h == nil || h.state.Load() >= fresh {
		return
	}
	h.wake()
}

func (h *History) wake() {
	for {
		switch s := h.state.Load(); s {
		case stale:
			if h.state.CompareAndSwap(stale, fresh) {
				return
			}
		case parked:
			if h.state.CompareAndSwap(parked, fresh) {
				h.start()
				return
			}
		default:
			return
		}
	}
}

func (h *History) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.done:
	default:
		h.running.Go(h.run)
	}
}

// Close ends the sampler. If the sampler has ever run, Close takes a last sample.
func (h *History) Close() {
	h.mu.Lock()
	first := h.state.Swap(closed) != closed
	if first {
		close(h.done)
	}
	sampling := h.ring != nil
	h.mu.Unlock()
	h.running.Wait()
	if first && sampling {
		h.tick(true)
	}
}

// watch keeps the sampler running until unwatch.
func (h *History) watch() {
	h.watchers.Inc()
	h.Touch()
}

func (h *History) unwatch() { h.watchers.Dec() }

func (h *History) run() {
	timer := time.NewTimer(h.tick(false))
	defer timer.Stop()
	for quiet := 0; quiet < quietTicks || !h.state.CompareAndSwap(stale, parked); {
		select {
		case <-h.done:
			return
		case <-timer.C:
		}
		if h.state.CompareAndSwap(fresh, stale) || h.watchers.Load() > 0 {
			quiet = 0
		} else {
			quiet++
		}
		timer.Reset(h.tick(true))
	}
}

// tick adds the seconds that have ended to the history. It returns the time until the
// current second ends. If credit is true, tick also adds the events since the last tick
// to the newest of the ended seconds. The first tick of a run passes false, because the
// event that started the run belongs to the current second. The next tick adds it.
func (h *History) tick(credit bool) time.Duration {
	h.mu.Lock()
	now := h.src.Clock()
	h.fill(now)
	if credit && h.ring.newest >= 0 {
		h.ring.credit(&h.src)
	}
	sampled := h.sampled
	h.mu.Unlock()
	if credit {
		sampled()
	}
	return metrics.Window - now%metrics.Window
}

// fill adds the seconds that have ended to the ring. The parameter now is the current
// time. The caller holds mu.
func (h *History) fill(now time.Duration) {
	lastEnded := int64(now/metrics.Window) - 1
	if h.ring == nil {
		h.ring = newRing(lastEnded)
	}
	r := h.ring
	for n := max(r.newest+1, lastEnded-historySeconds+1); n <= lastEnded; n++ {
		s := r.next(n)
		s.open, s.inFlight, s.queue = r.openRequests, r.inFlight, r.queue
		if n > lastEnded-exactWindows {
			a := h.src.Counting.LastWindow(time.Duration(n+1) * metrics.Window)
			s.open, s.arrivals = float32(a.Concurrency), float32(a.Arrivals)
		}
		s.concurrency = inFlightAverage(s.open, r.queue, r.queue, 0)
	}
}

// read calls f under the lock.
func (h *History) read(f func(*ring)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fill(h.src.Clock())
	f(h.ring)
}
