package loop

import "time"

// trimPeriod is the time for which an object must have been unused before it is
// discarded.
const trimPeriod = int64(3 * time.Second)

// Amounts of garbage at which a collection is requested. Discarded objects are garbage.
// An idle process may keep garbage for minutes, because only allocations start a
// collection.
const (
	minCollectItems = 32
	minCollectBytes = 1 << 20
)

// FreeList holds objects for reuse, last in first out. It discards objects that were not
// needed during a trimPeriod. It belongs to one loop.
type FreeList[T any] struct {
	loop    *Loop
	discard func(*T) // nil = nothing to do
	minFree int      // number of objects that are never discarded
	maxFree int
	items   []*T
	unused  int // minimum number of items during the current period
}

// Init sets the loop, the number of objects that are never discarded (keep), the maximum
// number of objects (most), and the function that releases a discarded object (drop; nil
// = nothing to do). Call it once.
func (s *FreeList[T]) Init(l *Loop, keep, most int, drop func(*T)) {
	s.loop, s.minFree, s.maxFree, s.discard = l, keep, most, drop
	l.lists = append(l.lists, s)
}

// Get removes and returns the object put last; nil = the list is empty.
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

// Put adds x. If the list is full, it returns false, and the caller keeps x.
func (s *FreeList[T]) Put(x *T) bool {
	if len(s.items) >= s.maxFree {
		return false
	}
	s.items = append(s.items, x)
	if len(s.items) > s.minFree {
		s.loop.ScheduleTrim()
	}
	return true
}

// Len returns the number of objects.
func (s *FreeList[T]) Len() int { return len(s.items) }

// beginPeriod starts a period and reports whether there may be objects to discard at
// its end.
func (s *FreeList[T]) beginPeriod() bool {
	s.unused = len(s.items)
	return len(s.items) > s.minFree
}

// trim discards the objects that were not needed in the period and returns their
// number.
func (s *FreeList[T]) trim() int {
	n := max(0, min(s.unused, len(s.items)-s.minFree))
	s.discardOldest(n)
	return n
}

// discardOldest discards the n objects that were put first.
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

// trimmable is a FreeList of any type.
type trimmable interface {
	beginPeriod() bool
	trim() int
	discardOldest(n int)
	Len() int
}

// freeLists holds the free lists of a loop.
type freeLists struct {
	lists        []trimmable
	trimAt       int64 // when to trim; 0 = never
	onTrim       func(collect bool) (again bool)
	garbage      int  // bytes that became garbage since the last collection
	garbageAdded bool // during this period
}

// OnTrim sets a function that is called on the loop at each trim, to trim other caches
// too. collect reports that enough garbage has accumulated for a collection. If f returns
// true, another trim follows after a trimPeriod. Call OnTrim before Run.
func (s *freeLists) OnTrim(f func(collect bool) (again bool)) { s.onTrim = f }

// ScheduleTrim schedules a trim after a trimPeriod, unless one is scheduled already.
func (l *Loop) ScheduleTrim() {
	if l.trimAt == 0 {
		l.trimAt = l.now + trimPeriod
		l.freeLists.beginPeriod()
	}
}

// AddGarbage records that n bytes outside of free lists have become garbage. A collection
// follows when no garbage has been added for a whole period. Under load none is needed,
// because the runtime collects anyway.
func (l *Loop) AddGarbage(n int) {
	l.garbage += n
	l.garbageAdded = true
	if l.garbage >= minCollectBytes {
		l.ScheduleTrim()
	}
}

// beginPeriod starts a period for all lists and reports whether any may have objects to
// discard at its end.
func (s *freeLists) beginPeriod() (any bool) {
	for _, x := range s.lists {
		any = x.beginPeriod() || any
	}
	return any
}

// trim discards objects that were not needed for a period. It schedules the next trim
// only if more may be discarded, so an idle loop sleeps.
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
	again := s.onTrim != nil && s.onTrim(collect)
	if s.trimAt = 0; s.beginPeriod() || garbage || again {
		s.trimAt = now + trimPeriod
	}
}
