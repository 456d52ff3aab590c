package exchange

import (
	"sync"
	"testing"

	"go.uber.org/atomic"
)

func TestABudgetIsNeverExceeded(t *testing.T) {
	const limit, part, workers = 100, 7, 8
	b := NewBudget(limit)
	var used, most atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range 10_000 {
				if !b.Acquire(part) {
					continue
				}
				now := used.Add(part)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				used.Sub(part)
				b.Release(part)
			}
		})
	}
	wg.Wait()
	if most.Load() > limit || b.Used() != 0 {
		t.Errorf("up to %d of %d in use at once, %d at the end", most.Load(), limit, b.Used())
	}
	if !b.Acquire(limit) || b.Acquire(1) {
		t.Error("the budget is not exactly the limit")
	}
	b.Release(limit)
	if NewBudget(0).Acquire(1) {
		t.Error("a byte was acquired from an empty budget")
	}
}
