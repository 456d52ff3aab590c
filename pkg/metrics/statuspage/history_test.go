package statuspage

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// stage is a History with its sources, on a clock that starts at 0.
type stage struct {
	*History
	counting *metrics.Counting
	requests *metrics.Requests
	ticks    atomic.Int64 // samples so far
	born     time.Time
}

func newStage(t testing.TB, admission func() gate.AdmissionStats) *stage {
	s := &stage{counting: new(metrics.Counting), requests: metrics.NewRequests(), born: time.Now()}
	s.History = NewHistory(Sources{
		Clock: s.now, Counting: s.counting, Requests: s.requests, Errors: NewErrors(), Admission: admission,
	})
	s.sampled = func() { s.ticks.Inc() }
	t.Cleanup(s.Close)
	return s
}

func (s *stage) now() time.Duration { return time.Since(s.born) }

// begin starts a request and returns the function that ends it.
func (s *stage) begin() (end func()) {
	arrived := s.now()
	s.counting.Begin(arrived, false)
	s.Touch()
	return func() {
		s.counting.End(s.now(), false)
		s.requests.Observe(&gate.Record{Status: 200, Arrived: arrived, Forwarded: arrived + 1, Ended: s.now(), ResponseBody: 10}, gate.TraceID{})
		s.Touch()
	}
}

// second returns a copy of the data of the second with the number n. The copy is zero if
// that second has not ended or is no longer kept.
func (s *stage) second(n int64) (copy second) {
	s.read(func(r *ring) {
		if n >= r.first() && n <= r.newest {
			copy = *r.at(n)
		}
	})
	return copy
}

func completed(x second) (n uint32) {
	for _, count := range x.heat {
		n += count
	}
	return n
}

func TestEachSecondHasItsConcurrencyArrivalsAndCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func() gate.AdmissionStats { return gate.AdmissionStats{InFlight: 4} })
		time.Sleep(10*time.Second + 250*time.Millisecond)
		end := s.begin()
		time.Sleep(500 * time.Millisecond)
		end()
		s.errors().Add(&gate.Record{Ended: s.now(), Outcome: gate.QueueFull})
		s.errors().Add(&gate.Record{Ended: s.now(), Outcome: gate.Served, Status: 500})
		s.begin()
		time.Sleep(time.Second)
		synctest.Wait()
		got := s.second(10)
		if got.concurrency != 0.75 || got.arrivals != 2 || completed(got) != 1 || got.responseBytes != 10 || got.refused != 1 || got.failed != 1 || got.clientErrors != 0 ||
			got.inFlight != 4 || got.queue != 0 {
			t.Errorf("%+v", got)
		}
		if got.p50 < 450 || got.p50 > 500 {
			t.Errorf("p50 of one request that took 500 ms: %v ms", got.p50)
		}
		if before := s.second(9); before != (second{}) {
			t.Errorf("the second before: %+v", before)
		}
	})
}

func TestQueuedRequestsAreNotInTheConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func() gate.AdmissionStats {
			return gate.AdmissionStats{ConcurrencyLimit: 4, InFlight: 4, QueueCapacity: 40, QueueDepth: 20}
		})
		for range 24 {
			s.begin()
		}
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		for n := range int64(3) {
			if got := s.second(n); got.concurrency != 4 || got.inFlight != 4 || got.queue != 20 {
				t.Errorf("second %d with 24 open requests: concurrency %v, in flight %d, queue %d", n, got.concurrency, got.inFlight, got.queue)
			}
		}
	})
}

func TestTheAverageInFlightExcludesTheQueueAndStaysWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		open          float32
		before, after uint32
		limit         int
		want          float32
	}{
		// In the third case the queue grows from 0 to 20, so on average 10 of the 14 open
		// requests are queued.
		{0.75, 0, 0, 4, 0.75}, {24, 20, 20, 4, 4}, {14, 0, 20, 4, 4},
		// The queue fills and empties within the second, so its length is 0 at both ends.
		// The result is then the limit, 4.
		{50, 0, 0, 4, 4},
		// The queue empties early in the second, so the estimate of its average length,
		// 5, is too high. The result is then 0 and not negative.
		{3, 10, 0, 4, 0},
		// The number of requests is not limited (0), but a limit on their cost keeps 6
		// requests in the queue on average.
		{9, 4, 8, 0, 3},
	} {
		if got := inFlightAverage(c.open, c.before, c.after, c.limit); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func (s *stage) errors() *Errors { return s.src.Errors }

func TestWithoutRequestsAndViewersThereIsNeitherGoroutineNorTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		time.Sleep(time.Hour)
		if s.ticks.Load() != 0 || s.ring != nil {
			t.Errorf("%d samples before the first request, memory taken: %t", s.ticks.Load(), s.ring != nil)
		}
		for round := range 3 {
			s.begin()()
			before := s.ticks.Load()
			time.Sleep(4 * time.Second)
			synctest.Wait()
			s.running.Wait() // returns only if the sampler has parked
			if n := s.ticks.Load() - before; n > 4 {
				t.Errorf("round %d: %d samples for one request", round, n)
			}
			before = s.ticks.Load()
			time.Sleep(time.Hour)
			if s.ticks.Load() != before {
				t.Errorf("round %d: %d samples while parked", round, s.ticks.Load()-before)
			}
		}
	})
}

func TestAViewerKeepsTheSamplerRunningUntilItDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.watch()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.ticks.Load(); n < 59 {
			t.Errorf("%d samples in a minute", n)
		}
		s.unwatch()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s.running.Wait()
	})
}

func TestSecondsWithoutASamplerShowTheRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func() gate.AdmissionStats { return gate.AdmissionStats{InFlight: 2} })
		first, second := s.begin(), s.begin()
		time.Sleep(100*time.Second + 500*time.Millisecond)
		s.running.Wait()
		first()
		second()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for n := int64(1); n < 100; n++ {
			if got := s.second(n); got.concurrency != 2 || got.inFlight != 2 || completed(got) != 0 {
				t.Fatalf("second %d: %+v", n, got)
			}
		}
		if got := s.second(100); got.concurrency != 1 || completed(got) != 2 {
			t.Errorf("the second in which both ended: %+v", got)
		}
		if got := s.second(101); got.concurrency != 0 {
			t.Errorf("the next: %+v", got)
		}
	})
}

func TestHistoryMatchesABruteForceModelOverRandomSchedules(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, nil)
			var area, arrivals, ends [400]float64 // by second
			var open []func()
			last, total := time.Duration(0), 0
			// advance lets time pass with the same requests in flight.
			advance := func(d time.Duration) {
				time.Sleep(d)
				for at := last; at < s.now(); {
					edge := min(at.Truncate(time.Second)+time.Second, s.now())
					area[at/time.Second] += float64(len(open)) * (edge - at).Seconds()
					at = edge
				}
				last = s.now()
			}
			for range 80 {
				d := time.Duration(r.Int64N(int64(time.Second)))
				if r.IntN(12) == 0 {
					d *= 9 // long enough to park
				}
				advance(d)
				second := s.now() / time.Second
				if i := r.IntN(len(open) + 2); i < len(open) {
					open[i]()
					open = append(open[:i], open[i+1:]...)
					ends[second]++
					total++
				} else {
					open = append(open, s.begin())
					arrivals[second]++
				}
			}
			advance(3 * time.Second)
			synctest.Wait()
			for n := range int64(s.now() / time.Second) {
				got := s.second(n)
				if diff := float64(got.concurrency) - area[n]; diff > 1e-3 || diff < -1e-3 ||
					float64(got.arrivals) != arrivals[n] || float64(completed(got)) != ends[n] {
					t.Fatalf("second %d: %+v, want concurrency %v, arrivals %v, ends %v", n, got, area[n], arrivals[n], ends[n])
				}
			}
		})
	}
}

func TestAfterAGapLongerThanTheHistoryTheHistoryIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.begin()()
		time.Sleep(time.Hour)
		s.read(func(r *ring) {
			if r.newest != 3599 || r.first() != 3300 {
				t.Errorf("from %d to %d", r.first(), r.newest)
			}
			for n := r.first(); n <= r.newest; n++ {
				if *r.at(n) != (second{}) {
					t.Fatalf("second %d: %+v", n, *r.at(n))
				}
			}
		})
	})
}

func TestCloseEndsTheSamplerPermanently(t *testing.T) {
	for _, wait := range []time.Duration{0, 500 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, nil)
			s.Touch()
			time.Sleep(wait)
			s.Close()
			ticks := s.ticks.Load()
			s.Touch()
			s.watch()
			time.Sleep(time.Minute)
			if s.ticks.Load() != ticks {
				t.Errorf("after %v: %d samples after the end", wait, s.ticks.Load()-ticks)
			}
			s.Close()
		})
	}
}

func TestConcurrentRequestsWakeOneSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		for range 5 {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { s.begin()() })
			}
			all.Wait()
			before := s.ticks.Load()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if n := s.ticks.Load() - before; n > 4 {
				t.Errorf("%d samples", n)
			}
		}
	})
}

func TestTheHistoryFitsInto80KiB(t *testing.T) {
	var r = newRing(0)
	size := unsafe.Sizeof(*r) + uintptr(cap(r.rows)) + uintptr(cap(r.bounds))*8
	for i := range r.recent {
		size += uintptr(cap(r.recent[i].cells)) * 4
	}
	for i := range r.blocks {
		size += uintptr(cap(r.blocks[i].cells)) * 4
	}
	size += 2 * uintptr(len(r.rows)) * 8 // totals and before
	if size > 80<<10 {
		t.Errorf("%d bytes", size)
	}
	t.Logf("%d bytes", size)
}

func TestTouchAllocatesNothing(t *testing.T) {
	s := newStage(t, nil)
	s.Touch()
	if n := testing.AllocsPerRun(1000, s.Touch); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var none *History
	if n := testing.AllocsPerRun(1000, none.Touch); n != 0 {
		t.Errorf("%v allocations without a page", n)
	}
}

func BenchmarkTouch(b *testing.B) {
	s := newStage(b, nil)
	for b.Loop() {
		s.Touch()
	}
}
