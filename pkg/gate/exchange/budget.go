package exchange

import "go.uber.org/atomic"

// Budget limits the memory of the whole process for one purpose, in bytes. Its methods
// may be called from any goroutine.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes. A limit of 0 or less makes every Acquire
// fail.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Acquire takes n bytes and returns true. If fewer are available, it takes nothing and
// returns false. It never blocks.
func (b *Budget) Acquire(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.Release(n)
	return false
}

// Release returns n bytes to the budget.
func (b *Budget) Release(n int64) {
	if b.used.Sub(n) < 0 {
		panic("BUG: more was released than acquired")
	}
}

// Used returns the number of bytes in use. It may briefly include those of a failing
// Acquire.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit returns the size of the budget in bytes.
func (b *Budget) Limit() int64 { return b.limit }
