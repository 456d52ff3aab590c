package loop

import (
	"math"
	"math/rand/v2"
	"testing"
)

// checkHeap checks that h is a valid heap and that each timer knows its index in h. It
// also checks that h has the same timers and times as the map.
func checkHeap(t *testing.T, h timerHeap, model map[*timer]int64) {
	t.Helper()
	if len(h) != len(model) {
		t.Fatalf("%d timers, want %d", len(h), len(model))
	}
	least := int64(math.MaxInt64)
	for _, when := range model {
		least = min(least, when)
	}
	for i, x := range h {
		if x.index != i+1 {
			t.Fatalf("the timer at index %d has index %d", i, x.index-1)
		}
		if when, ok := model[x]; !ok || when != x.expiresAt {
			t.Fatalf("timer set to %d, want %d (known %v)", x.expiresAt, when, ok)
		}
		if parent := h[(i-1)/2]; i > 0 && parent.expiresAt > x.expiresAt {
			t.Fatalf("timer %d (%d) is before its parent (%d)", i, x.expiresAt, parent.expiresAt)
		}
	}
	if len(h) > 0 && h[0].expiresAt != least {
		t.Fatalf("first timer is for %d, want %d", h[0].expiresAt, least)
	}
}

func TestTheTimerHeapMatchesAMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var h timerHeap
		model := map[*timer]int64{}
		timers := make([]timer, 1+r.IntN(60))
		span := int64(1 + r.IntN(100)) // small spans cause ties
		for range 400 {
			x := &timers[r.IntN(len(timers))]
			switch when := r.Int64N(span); r.IntN(5) {
			case 0:
				h.remove(x)
				delete(model, x)
				if x.index != 0 {
					t.Fatalf("a removed timer has index %d", x.index)
				}
			case 1:
				if len(h) > 0 {
					first := h[0]
					h.remove(first)
					delete(model, first)
				}
			default:
				h.ensure(x, when)
				if old, ok := model[x]; !ok || when < old {
					model[x] = when
				}
			}
			checkHeap(t, h, model)
		}
	}
}

// Tasks wait for random deadlines, with wake-ups in between. No wait may end before its
// deadline without a wake-up.
func TestAllRandomDeadlinesFire(t *testing.T) {
	l := startLoop(t)
	const tasks, waits = 100, 10
	done := make(chan struct{}, tasks)
	all := make([]*Task, tasks)
	on(t, l, func() {
		for i := range all {
			l.begin(func(me *Task) {
				all[i] = me
				for range waits {
					until := Nanotime() + rand.Int64N(2_000_000)
					for l.Now() < until {
						me.Wait(until + rand.Int64N(2)*rand.Int64N(1_000_000))
					}
				}
				done <- struct{}{}
			})
		}
	})
	go func() {
		for range 1000 {
			all[rand.IntN(tasks)].Wake()
		}
	}()
	for range tasks {
		receive(t, done)
	}
}

// pastDeadline is a routine that sets a deadline in the past in each step, until stopped.
type pastDeadline struct {
	Handle
	steps int
	stop  bool
}

func (a *pastDeadline) Step() {
	a.steps++
	switch {
	case !a.stop:
		a.SetDeadline(1)
	case a.index != 0:
		a.End()
	}
}

// A posted function must run while a routine keeps setting deadlines in the past.
func TestPastDeadlinesDoNotStarveTheLoop(t *testing.T) {
	l := startLoop(t)
	a := &pastDeadline{}
	a.Bind(l, a)
	on(t, l, func() {
		a.Begin()
		a.Step()
	})
	for last := 0; last < 3; {
		on(t, l, func() {
			if a.steps > last {
				last = a.steps
			}
		})
	}
	on(t, l, func() { a.stop = true })
}
