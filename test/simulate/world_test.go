package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// world holds the clock, the scheduled events and the random choices of a run.
type world struct {
	*scratch
	rng     *rand.Rand
	more    *rand.Rand // for newer choices, so that rng is unchanged for old seeds
	now     int64      // in nanoseconds
	seq     uint64
	shuffle bool // random order of simultaneous events

	hash    uint64 // hash of all events
	tracing bool
	trace   []string

	fault string // first finding

	betweenEvents func()
}

const (
	microsecond = int64(time.Microsecond)
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
)

type event struct {
	time int64
	key  uint64
	run  func()
}

func (e *event) isBefore(o *event) bool { return e.time < o.time || e.time == o.time && e.key < o.key }

// eventHeap is a 4-ary heap.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.isBefore(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	first, n := s[0], len(s)-1
	e := s[n]
	s[n].run = nil
	s = s[:n]
	for i := 0; n > 0; {
		child := 4*i + 1
		if child >= n {
			s[i] = e
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if s[c].isBefore(&s[least]) {
				least = c
			}
		}
		if !s[least].isBefore(&e) {
			s[i] = e
			break
		}
		s[i] = s[least]
		i = least
	}
	*h = s
	return first
}

// schedule runs f after delay.
func (w *world) schedule(delay int64, f func()) { w.afterIn(w.rng, delay, f) }

// afterIn is after with a separate random source for the order of simultaneous events.
func (w *world) afterIn(rng *rand.Rand, delay int64, f func()) {
	w.seq++
	key := w.seq
	if w.shuffle {
		key = rng.Uint64()
	}
	w.events.push(event{time: w.now + max(delay, 0), key: key, run: f})
}

// step runs the next event, or returns false if there is none before limit.
func (w *world) step(limit int64) bool {
	if len(w.events) == 0 || w.events[0].time > limit {
		return false
	}
	e := w.events.pop()
	w.now = e.time
	e.run()
	w.betweenEvents()
	return true
}

// gateClock implements gate.Clock.
type gateClock struct{ *world }

func (c gateClock) Now() time.Duration { return time.Duration(c.now) }

func (c gateClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	stopped := false
	c.afterIn(c.more, int64(d), func() {
		if !stopped {
			f()
		}
	})
	return func() { stopped = true }
}

// found reports a finding. Only the first one counts.
func (w *world) found(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
		w.note("FOUND: %s", w.fault)
	}
}

// note writes a line of the trace. Hot paths check w.tracing first.
func (w *world) note(format string, args ...any) {
	if w.tracing {
		at := time.Duration(w.now)
		w.trace = append(w.trace, fmt.Sprintf("%12.6f  %s", at.Seconds(), fmt.Sprintf(format, args...)))
	}
}

// mix adds values to the hash of the run.
func (w *world) mix(values ...uint64) {
	h := w.hash ^ uint64(w.now)
	for _, v := range values {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	w.hash = h
}

// chance is true with probability p.
func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// randomIn returns a random number from low to high, inclusive.
func (w *world) randomIn(low, high int64) int64 {
	if high <= low {
		return low
	}
	return low + w.rng.Int64N(high-low+1)
}

// spread returns a random number from low to high; small numbers are more likely. It
// draws uniformly from low to a bound, which begins at low and grows about eightfold with
// probability 2/3, repeatedly, until that fails or the bound is high.
func (w *world) spread(low, high int64) int64 {
	if high <= low {
		return low
	}
	span := low
	for span < high && w.rng.IntN(3) > 0 {
		span = min(span*8+1, high)
	}
	return w.randomIn(low, span)
}

func pick[T any](w *world, choices ...T) T { return choices[w.rng.IntN(len(choices))] }

// printable shortens bytes for a trace.
func printable(b []byte) string {
	const most = 60
	s := string(b[:min(len(b), most)])
	s = strings.NewReplacer("\r\n", "␍").Replace(s)
	q := fmt.Sprintf("%q", s)
	if len(b) > most {
		q += fmt.Sprintf("… (%d bytes)", len(b))
	}
	return q
}
