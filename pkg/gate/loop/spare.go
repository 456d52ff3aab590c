package loop

import "time"

// trimPeriod is how long something must have been spare before it is let go.
const trimPeriod = int64(3 * time.Second)

// What is let go of is garbage, which an idle process may keep for minutes: only
// allocations make the runtime collect. This much is worth a collection.
const (
	collectSpares = 32
	collectBytes  = 1 << 20
)

// Spares keeps what a burst leaves behind for the next one, last in first out,
// and lets go of what has not been needed for a period. It belongs to one loop.
type Spares[T any] struct {
	loop   *Loop
	drop   func(*T) // nil = nothing to do
	keep   int      // stay in any case
	most   int
	items  []*T
	unused int // fewest items of the period that is under way
}

// Init says once which loop s belongs to, how many stay in any case and how
// many at most, and what lets go of one (nil: nothing but the collector).
func (s *Spares[T]) Init(l *Loop, keep, most int, drop func(*T)) {
	s.loop, s.keep, s.most, s.drop = l, keep, most, drop
	l.spares = append(l.spares, s)
}

// Get takes the one that was put last, or nil.
func (s *Spares[T]) Get() *T {
	n := len(s.items)
	if n == 0 {
		return nil
	}
	x := s.items[n-1]
	s.items[n-1] = nil
	s.items = s.items[:n-1]
	s.unused = min(s.unused, n-1)
	return x
}

// Put keeps x, or reports false: there are enough, and x is the caller's.
func (s *Spares[T]) Put(x *T) bool {
	if len(s.items) >= s.most {
		return false
	}
	s.items = append(s.items, x)
	if s.loop.trimAt == 0 && len(s.items) > s.keep {
		s.loop.trimAt = s.loop.now + trimPeriod
		s.loop.shelf.observe()
	}
	return true
}

// Len is how many there are.
func (s *Spares[T]) Len() int { return len(s.items) }

// observe begins a period; it reports whether there is something to trim at
// its end.
func (s *Spares[T]) observe() bool {
	s.unused = len(s.items)
	return len(s.items) > s.keep
}

// trim lets go of what was not needed in the period, and returns how many.
func (s *Spares[T]) trim() int {
	n := max(0, min(s.unused, len(s.items)-s.keep))
	s.shorten(n)
	return n
}

// shorten lets go of the n that were put first.
func (s *Spares[T]) shorten(n int) {
	if n == 0 {
		return
	}
	for _, x := range s.items[:n] {
		if s.drop != nil {
			s.drop(x)
		}
	}
	s.items = append(make([]*T, 0, len(s.items)-n), s.items[n:]...)
}

// spareList is what the loop sees of a Spares.
type spareList interface {
	observe() bool
	trim() int
	shorten(n int)
	Len() int
}

// shelf is what a loop keeps of bursts that are over.
type shelf struct {
	spares   []spareList
	trimAt   int64 // when to trim; 0 = never
	trimmed  func(collect bool)
	dropped  int  // bytes that became garbage since the last collection
	dropping bool // some of them in this period
}

// Trimmed, if set before Run, is called on the loop after spares were let go:
// the time to let go of what else a burst has left behind. With collect, a
// collection is worth its while.
func (s *shelf) Trimmed(f func(collect bool)) { s.trimmed = f }

// Dropped notes that n bytes that no list keeps have become garbage. They are
// worth a collection once nothing has been dropped for a period: while there is
// traffic, the runtime collects of its own accord.
func (l *Loop) Dropped(n int) {
	l.dropped += n
	l.dropping = true
	if l.trimAt == 0 && l.dropped >= collectBytes {
		l.trimAt = l.now + trimPeriod
		l.shelf.observe()
	}
}

// observe begins a period for all lists and reports whether any has something
// to let go at its end.
func (s *shelf) observe() (any bool) {
	for _, x := range s.spares {
		any = x.observe() || any
	}
	return any
}

// trim lets go of what has not been needed for a period. While there is more to
// let go it does so again after another one; an idle loop that has trimmed
// sleeps on.
func (s *shelf) trim(now int64) {
	n := 0
	for _, x := range s.spares {
		n += x.trim()
	}
	garbage := s.dropped >= collectBytes
	collect := n >= collectSpares || garbage && !s.dropping
	if collect {
		s.dropped, garbage = 0, false
	}
	s.dropping = false
	if s.trimAt = 0; s.observe() || garbage {
		s.trimAt = now + trimPeriod
	}
	if (n > 0 || collect) && s.trimmed != nil {
		s.trimmed(collect)
	}
}
