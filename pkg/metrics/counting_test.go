package metrics

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

type span struct {
	begin, end time.Duration // end < 0: the request has not ended
	proxied    bool
}

// model is the reference: it keeps every request and computes sums over all of them.
type model []span

func (m model) window(n int64) (a Averages) {
	from, to := time.Duration(n)*Window, time.Duration(n+1)*Window
	var area, areaProxied time.Duration
	for _, s := range m {
		end := s.end
		if end < 0 || end > to {
			end = to
		}
		if begin := max(s.begin, from); begin < end {
			area += end - begin
			if s.proxied {
				areaProxied += end - begin
			}
		}
		if s.begin >= from && s.begin < to {
			a.Arrivals++
			if s.proxied {
				a.ProxiedArrivals++
			}
		}
	}
	a.Concurrency, a.ProxiedConcurrency = float64(area)/float64(Window), float64(areaProxied)/float64(Window)
	return a
}

func (m model) underWay() (all, proxied int64) {
	for _, s := range m {
		if s.end < 0 {
			all++
			if s.proxied {
				proxied++
			}
		}
	}
	return all, proxied
}

func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// step returns a random time until the next event. Many events are simultaneous, or
// within 1 ns of a window boundary.
func step(r *rand.Rand, now time.Duration) time.Duration {
	edge := Window - now%Window
	switch r.IntN(12) {
	case 0, 1:
		return 0
	case 2:
		return edge
	case 3:
		return edge - 1
	case 4:
		return edge + 1
	case 5:
		return time.Duration(r.Int64N(int64(9 * Window)))
	}
	return time.Duration(r.Int64N(int64(Window / 4)))
}

func TestAveragesMatchABruteForceModelOverRandomSchedules(t *testing.T) {
	r := random(t)
	for range 200 {
		var c Counting
		var m model
		var open []int
		now := time.Duration(r.Int64N(int64(3 * Window)))
		check := func() {
			t.Helper()
			if n := int64(now/Window) - 1; n >= 0 {
				if got, want := c.LastWindow(now), m.window(n); got != want {
					t.Fatalf("window %d read at %v: %+v, want %+v", n, now, got, want)
				}
			}
			all, proxied := c.InFlight()
			if wantAll, wantProxied := m.underWay(); all != wantAll || proxied != wantProxied {
				t.Fatalf("at %v: %d in flight, %d proxied, want %d, %d", now, all, proxied, wantAll, wantProxied)
			}
		}
		for range 150 {
			now += step(r, now)
			switch k := r.IntN(10); {
			case k < 4:
				open = append(open, len(m))
				m = append(m, span{now, -1, r.IntN(3) == 0})
				c.Begin(now, m[len(m)-1].proxied)
			case k < 5: // the request ends at once
				m = append(m, span{now, now, r.IntN(3) == 0})
				c.Begin(now, m[len(m)-1].proxied)
				c.End(now, m[len(m)-1].proxied)
			case k < 8 && len(open) > 0:
				i := r.IntN(len(open))
				m[open[i]].end = now
				c.End(now, m[open[i]].proxied)
				open = slices.Delete(open, i, i+1)
			default:
				check()
			}
		}
		for _, i := range open {
			m[i].end = now
			c.End(now, m[i].proxied)
		}
		check()
		now += Window
		check()
		now += 2 * Window
		if got := c.LastWindow(now); got != (Averages{}) {
			t.Fatalf("after everything ended: %+v", got)
		}
	}
}

func TestEventsOfSeveralGoroutinesInAnyOrderAddUpToTheModel(t *testing.T) {
	const (
		goroutines = 8
		rounds     = 40
		perRound   = 60
	)
	r := random(t)
	var c Counting
	stop := make(chan struct{})
	reader := sync.WaitGroup{}
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if all, proxied := c.InFlight(); all < 0 || proxied < 0 {
				t.Errorf("%d in flight, %d proxied", all, proxied)
				return
			}
		}
	})
	sources := make([]*rand.Rand, goroutines)
	models := make([]model, goroutines)
	for g := range sources {
		sources[g] = rand.New(rand.NewPCG(r.Uint64(), 1))
	}
	// In round k all events are in the windows k-1 and k, so window k-1 is complete
	// after the round.
	for k := int64(1); k <= rounds; k++ {
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				r, m := sources[g], &models[g]
				for range perRound {
					at := time.Duration(k-1)*Window + time.Duration(r.Int64N(int64(2*Window)))
					if i := r.IntN(len(*m) + 1); i < len(*m) && r.IntN(2) == 0 && (*m)[i].end < 0 {
						(*m)[i].end = max(at, (*m)[i].begin)
						c.End((*m)[i].end, (*m)[i].proxied)
						continue
					}
					s := span{at, -1, r.IntN(4) == 0}
					c.Begin(at, s.proxied)
					*m = append(*m, s)
				}
			})
		}
		all.Wait()
		now := time.Duration(k)*Window + 17
		if got, want := c.LastWindow(now), model(slices.Concat(models...)).window(k-1); got != want {
			t.Fatalf("window %d: %+v, want %+v", k-1, got, want)
		}
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for _, s := range models[g] {
				if s.end < 0 {
					c.End((rounds+2)*Window, s.proxied)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	reader.Wait()
	if all, proxied := c.InFlight(); all != 0 || proxied != 0 {
		t.Errorf("%d in flight, %d proxied in the end", all, proxied)
	}
	if got := c.LastWindow((rounds + 4) * Window); got != (Averages{}) {
		t.Errorf("in the end: %+v", got)
	}
}

func TestARequestThatOutlastsManyWindowsCountsInEachOfThem(t *testing.T) {
	var c Counting
	c.Begin(250*time.Millisecond, true)
	for _, at := range []time.Duration{0, 999 * time.Millisecond} {
		if got := c.LastWindow(at); got != (Averages{}) {
			t.Errorf("at %v, before a window was over: %+v", at, got)
		}
	}
	if got, want := c.LastWindow(1*time.Second), (Averages{0.75, 0.75, 1, 1}); got != want {
		t.Errorf("first window: %+v, want %+v", got, want)
	}
	if got, want := c.LastWindow(1000*time.Second), (Averages{Concurrency: 1, ProxiedConcurrency: 1}); got != want {
		t.Errorf("much later: %+v, want %+v", got, want)
	}
	c.End(1000*time.Second+500*time.Millisecond, true)
	if got, want := c.LastWindow(1001*time.Second), (Averages{Concurrency: 0.5, ProxiedConcurrency: 0.5}); got != want {
		t.Errorf("last window: %+v, want %+v", got, want)
	}
}

func TestAnEventInTheOldestKeptWindowIsCountedExactly(t *testing.T) {
	var c Counting
	c.Begin(13*time.Second, false)
	c.Begin(10*time.Second+750*time.Millisecond, false)
	if got, want := c.LastWindow(11*time.Second), (Averages{Concurrency: 0.25, Arrivals: 1}); got != want {
		t.Errorf("its window: %+v, want %+v", got, want)
	}
	if got, want := c.LastWindow(14*time.Second), (Averages{Concurrency: 2, Arrivals: 1}); got != want {
		t.Errorf("the newest: %+v, want %+v", got, want)
	}
}

func TestAnEventOlderThanAllKeptWindowsIsCountedInTheOldestWindow(t *testing.T) {
	var c Counting
	c.Begin(100*time.Second, false)
	// This event is about 97 s older than the newest window, so it is older than all kept
	// windows.
	c.Begin(3*time.Second+250*time.Millisecond, true)
	if got, want := c.LastWindow(98*time.Second), (Averages{1, 1, 1, 1}); got != want {
		t.Errorf("the oldest kept window: %+v, want %+v", got, want)
	}
	if all, proxied := c.InFlight(); all != 2 || proxied != 1 {
		t.Errorf("%d in flight, %d proxied, want 2, 1", all, proxied)
	}
	if got := c.LastWindow(102 * time.Second).Concurrency; got != 2 {
		t.Errorf("average %v, want 2", got)
	}
	c.End(102*time.Second, false)
	c.End(3*time.Second, true)
	if all, proxied := c.InFlight(); all != 0 || proxied != 0 {
		t.Errorf("%d in flight, %d proxied, want none", all, proxied)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c Counting
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 10 * time.Millisecond
		c.Begin(now, true)
		c.End(now, true)
		c.LastWindow(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCounting(b *testing.B) {
	for _, proxied := range []bool{false, true} {
		name := map[bool]string{false: "direct", true: "proxied"}[proxied]
		b.Run(name, func(b *testing.B) {
			var c Counting
			b.ReportAllocs()
			for at := time.Duration(0); b.Loop(); at += time.Microsecond {
				c.Begin(at, proxied)
				c.End(at, proxied)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			var c Counting
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for at := time.Duration(0); pb.Next(); at += time.Microsecond {
					c.Begin(at, proxied)
					c.End(at, proxied)
				}
			})
		})
	}
}
