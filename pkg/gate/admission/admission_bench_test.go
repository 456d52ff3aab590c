package admission

import (
	"testing"

	"go.uber.org/atomic"
)

func eachControllerBench(b *testing.B, config Config, run func(b *testing.B, a admission)) {
	for _, implementation := range implementations {
		b.Run(implementation.name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, implementation.make(config))
		})
	}
}

// One goroutine, a slot is always free.
func BenchmarkBeginEnd(b *testing.B) {
	for _, mode := range []struct {
		name   string
		config Config
	}{{"unlimited", Config{}}, {"limited", Config{Limit: 100, Capacity: 1000}}} {
		b.Run(mode.name, func(b *testing.B) {
			eachControllerBench(b, mode.config, func(b *testing.B, a admission) {
				w := &Waiter{Notify: func() {}}
				for b.Loop() {
					a.Acquire(w)
					a.Release()
				}
			})
		})
	}
}

// One goroutine. Enough units are always free, and Config.Brake never delays a request.
func BenchmarkBeginEndByCost(b *testing.B) {
	b.ReportAllocs()
	a := New(Config{Limit: 100, Capacity: 1000, CostLimit: 1000, Brake: true})
	a.SetRoom(AnyRoom, 0)
	ticket := &Ticket{Waiter: Waiter{Notify: func() {}}}
	for b.Loop() {
		ticket.Waiter.SetCost(50)
		ticket.Acquire(a)
		ticket.Release(a)
	}
}

// One goroutine per processor, a slot is always free.
func BenchmarkBeginEndParallel(b *testing.B) {
	for _, mode := range []struct {
		name   string
		config Config
	}{{"unlimited", Config{}}, {"limited", Config{Limit: 100, Capacity: 1000}}} {
		b.Run(mode.name, func(b *testing.B) {
			eachControllerBench(b, mode.config, func(b *testing.B, a admission) {
				b.RunParallel(func(pb *testing.PB) {
					w := &Waiter{Notify: func() {}}
					for pb.Next() {
						a.Acquire(w)
						a.Release()
					}
				})
			})
		})
	}
}

// This is BenchmarkBeginEndParallel with a limit, and with a few hundred nanoseconds of
// work while holding the slot and after releasing it. Without the work, a mutex seems
// faster than it is: its holder locks it again before another processor sees it
// unlocked.
func BenchmarkBeginEndParallelWithWork(b *testing.B) {
	eachControllerBench(b, Config{Limit: 100, Capacity: 1000}, func(b *testing.B, a admission) {
		b.RunParallel(func(pb *testing.PB) {
			w := &Waiter{Notify: func() {}}
			work := uint64(1)
			for pb.Next() {
				a.Acquire(w)
				work = spin(work)
				a.Release()
				work = spin(work)
			}
			sink.Store(work)
		})
	})
}

var sink atomic.Uint64

// spin is not inlined, so that all benchmarks run the same code with the same alignment.
//
//go:noinline
func spin(x uint64) uint64 {
	for range 200 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// BenchmarkWorkParallel measures the work of BenchmarkBeginEndParallelWithWork alone,
// without admission.
func BenchmarkWorkParallel(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		work := uint64(1)
		for pb.Next() {
			work = spin(spin(work))
		}
		sink.Store(work)
	})
}

// Each request is queued, and the Release of the previous request hands it the slot.
// Notify does nothing, so the benchmark does not include the wake-up of a goroutine; an
// event loop needs none either.
func BenchmarkHandOver(b *testing.B) {
	eachControllerBench(b, Config{Limit: 1, Capacity: 1}, func(b *testing.B, a admission) {
		a.TryAcquire()
		w := &Waiter{Notify: func() {}}
		for b.Loop() {
			if a.Acquire(w) != Queued {
				b.Fatal("did not queue")
			}
			a.Release()
		}
	})
}

// BenchmarkHandOver with one goroutine per processor and 1,000 requests already queued.
func BenchmarkHandOverParallel(b *testing.B) {
	eachControllerBench(b, Config{Limit: 1, Capacity: 1 << 12}, func(b *testing.B, a admission) {
		a.TryAcquire()
		free := make(chan *Waiter, 1<<12)
		newWaiter := func() *Waiter {
			w := &Waiter{}
			w.Notify = func() { free <- w }
			return w
		}
		for range 1000 {
			a.Acquire(newWaiter())
		}
		for range 100 {
			free <- newWaiter()
		}
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				a.Acquire(<-free)
				a.Release()
			}
		})
	})
}

// The first of 1,000 queued requests is withdrawn and queued again.
func BenchmarkWithdraw(b *testing.B) {
	eachControllerBench(b, Config{Limit: 1, Capacity: 1000}, func(b *testing.B, a admission) {
		a.TryAcquire()
		waiters := make([]Waiter, 1000)
		for i := range waiters {
			waiters[i].Notify = func() {}
			a.Acquire(&waiters[i])
		}
		i := 0
		for b.Loop() {
			a.Withdraw(&waiters[i])
			a.Acquire(&waiters[i])
			if i++; i == len(waiters) {
				i = 0
			}
		}
	})
}

// All requests are rejected; one goroutine per processor.
func BenchmarkRejectParallel(b *testing.B) {
	eachControllerBench(b, Config{Limit: 1}, func(b *testing.B, a admission) {
		a.TryAcquire()
		b.RunParallel(func(pb *testing.PB) {
			w := &Waiter{Notify: func() {}}
			for pb.Next() {
				if a.Acquire(w) != Rejected {
					b.Error("was not refused")
					return
				}
			}
		})
	})
}
