package loop

import "time"

// trimPeriod is how long something must have been spare before it is let go.
const trimPeriod = int64(3 * time.Second)

// What is let go of is garbage, which an idle process may keep for minutes: only
// allocations make the runtime collect. This much is worth a collection.
const (
	minCollectItems = 32
	minCollectBytes = 1 << 20
)

// FreeList keeps what a burst leaves behind for the next one, last in first out,
// and lets go of what has not been needed for a period. It belongs to one loop.
type FreeList[T any] struct {
	loop    *Loop
	discard func(*T) // nil = nothing to do
	minKept int      // stay in any case
	maxKept int
	items   []*T
	unused  int // fewest items of the period that is under way
}

// Init says once which loop s belongs to, how many stay in any case and how
// many at most, and what lets go of one (nil: nothing but the collector).
func (s *FreeList[T]) Init(l *Loop, keep, most int, drop func(*T)) {
	s.loop, s.minKept, s.maxKept, s.discard = l, keep, most, drop
	l.lists = append(l.lists, s)
}

// Get takes the one that was put last, or nil.
func (s *FreeList[T]) Get() *T {
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
func (s *FreeList[T]) Put(x *T) bool {
	if len(s.items) >= s.maxKept {
		return false
	}
	s.items = append(s.items, x)
	if s.loop.trimAt == 0 && len(s.items) > s.minKept {
		s.loop.trimAt = s.loop.now + trimPeriod
		s.loop.freeLists.beginPeriod()
	}
	return true
}

// Len is how many there are.
func (s *FreeList[T]) Len() int { return len(s.items) }

// beginPeriod begins a period; it reports whether there is something to trim at
// its end.
func (s *FreeList[T]) beginPeriod() bool {
	s.unused = len(s.items)
	return len(s.items) > s.minKept
}

// trim lets go of what was not needed in the period, and returns how many.
func (s *FreeList[T]) trim() int {
	n := max(0, min(s.unused, len(s.items)-s.minKept))
	s.discardOldest(n)
	return n
}

// discardOldest lets go of the n that were put first.
func (s *FreeList[T]) discardOldest(n int) {
	if n == 0 {
		return
	}
	for _, x := range s.items[:n] {
		if s.discard != nil {
			s.discard(x)
		}
	}
	s.items = append(make([]*T, 0, len(s.items)-n), s.items[n:]...)
}

// trimmable is what the loop sees of a Spares.
type trimmable interface {
	beginPeriod() bool
	trim() int
	discardOldest(n int)
	Len() int
}

// freeLists is what a loop keeps of bursts that are over.
type freeLists struct {
	lists        []trimmable
	trimAt       int64 // when to trim; 0 = never
	onTrim       func(collect bool)
	garbage      int  // bytes that became garbage since the last collection
	garbageAdded bool // some of them in this period
}

// Trimmed, if set before Run, is called on the loop after spares were let go:
// the time to let go of what else a burst has left behind. With collect, a
// collection is worth its while.
func (s *freeLists) OnTrim(f func(collect bool)) { s.onTrim = f }

// AddGarbage notes that n bytes that no list keeps have become garbage. They are
// worth a collection once nothing has been dropped for a period: while there is
// traffic, the runtime collects of its own accord.
func (l *Loop) AddGarbage(n int) {
	l.garbage += n
	l.garbageAdded = true
	if l.trimAt == 0 && l.garbage >= minCollectBytes {
		l.trimAt = l.now + trimPeriod
		l.freeLists.beginPeriod()
	}
}

// beginPeriod begins a period for all lists and reports whether any has something
// to let go at its end.
func (s *freeLists) beginPeriod() (any bool) {
	for _, x := range s.lists {
		any = x.beginPeriod() || any
	}
	return any
}

// trim lets go of what has not been needed for a period. While there is more to
// let go it does so again after another one; an idle loop that has trimmed
// sleeps on.
func (s *freeLists) trim(now int64) {
	n := 0
	for _, x := range s.lists {
		n += x.trim()
	}
	garbage := s.garbage >= minCollectBytes
	collect := n >= minCollectItems || garbage && !s.garbageAdded
	if collect {
		s.garbage, garbage = 0, false
	}
	s.garbageAdded = false
	if s.trimAt = 0; s.beginPeriod() || garbage {
		s.trimAt = now + trimPeriod
	}
	if (n > 0 || collect) && s.onTrim != nil {
		s.onTrim(collect)
	}
}
