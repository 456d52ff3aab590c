package exchange

import "go.uber.org/atomic"

// Budget bounds a resource for the whole process, in bytes. A caller that
// needs some acquires it first and does without where none is left: a budget
// never makes a caller wait. Methods may be called from several goroutines.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of limit bytes; 0 and less leave nothing to acquire.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Acquire takes n bytes, or nothing if fewer are left. What was acquired is
// given back with Release.
func (b *Budget) Acquire(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.Release(n)
	return false
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	if b.used.Sub(n) < 0 {
		panic("BUG: more was released than acquired")
	}
}

// Used is how many bytes are acquired. Attempts that fail count for a moment.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit is how many bytes there are.
func (b *Budget) Limit() int64 { return b.limit }
