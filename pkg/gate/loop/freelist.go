package loop

import "time"

// trimPeriod is the time after which an unused object is discarded.
const trimPeriod = int64(3 * time.Second)

// A trim requests a garbage collection if it has discarded at least minCollectItems
// objects, or if at least minCollectBytes of other garbage have accumulated (see
// AddGarbage). Without the request, an idle process could keep this garbage for minutes.
const (
	minCollectItems = 32
	minCollectBytes = 1 << 20
)

// FreeList holds objects for reuse, last in first out. Objects not needed during a
// trimPeriod are discarded. It belongs to one loop.
type FreeList[T any] struct {
	loop    *Loop
	discard func(*T) // nil = nothing to do
	minFree int      // number of objects that trims always keep
	maxFree int
	items   []*T
	unused  int // minimum length of items in the current period
}

// Init sets the number of objects that are never discarded (keep), the maximum number of
// objects (most), and the function that releases a discarded object (drop; nil = none).
// Call it once.
func (s *FreeList[T]) Init(l *Loop, keep, most int, drop func(*T)) {
	s.loop, s.minFree, s.maxFree, s.discard = l, keep, most, drop
	l.lists = append(l.lists, s)
}

// Get removes and returns the object put last; nil = empty.
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

// Put adds x. If the list is full, Put returns false and the caller keeps x.
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

// beginPeriod starts a trimPeriod, in which the list records how many objects are not
// needed. It reports whether there are objects that the trim at the end of the period may
// discard.
func (s *FreeList[T]) beginPeriod() bool {
	s.unused = len(s.items)
	return len(s.items) > s.minFree
}

// trim discards the objects not needed in the period and returns their number.
func (s *FreeList[T]) trim() int {
	n := max(0, min(s.unused, len(s.items)-s.minFree))
	s.discardOldest(n)
	return n
}

// discardOldest discards the n objects at the front.
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

type trimmable interface {
	beginPeriod() bool
	trim() int
	discardOldest(n int)
	Len() int
}

type freeLists struct {
	lists        []trimmable
	trimAt       int64 // time of the next trim; 0 = never
	onTrim       func(collect bool) (more bool)
	garbage      int  // bytes of garbage since the last collection
	garbageAdded bool // AddGarbage has been called in this trimPeriod
}

// OnTrim sets the function f, which the loop calls at each trim. The argument of f is
// true if there is enough garbage for a garbage collection. If f returns true, the loop
// trims again after a trimPeriod. Call OnTrim before Run.
func (s *freeLists) OnTrim(f func(collect bool) (more bool)) { s.onTrim = f }

// ScheduleTrim schedules a trim after a trimPeriod, unless one is scheduled.
func (l *Loop) ScheduleTrim() {
	if l.trimAt == 0 {
		l.trimAt = l.now + trimPeriod
		l.freeLists.beginPeriod()
	}
}

// AddGarbage records that n bytes have become garbage, in addition to discarded objects
// of free lists. A trim requests a garbage collection for them only if no garbage was
// added in the last trimPeriod. A busy process needs no request, because its allocations
// cause collections.
func (l *Loop) AddGarbage(n int) {
	l.garbage += n
	l.garbageAdded = true
	if l.garbage >= minCollectBytes {
		l.ScheduleTrim()
	}
}

// beginPeriod starts a trimPeriod for all lists. It reports whether any list has objects
// that the trim at the end of the period may discard.
func (s *freeLists) beginPeriod() (any bool) {
	for _, x := range s.lists {
		any = x.beginPeriod() || any
	}
	return any
}

// trim discards objects that were not needed for a period. It schedules another trim only
// if it may be needed, so that an idle loop sleeps.
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
	more := s.onTrim != nil && s.onTrim(collect)
	if s.trimAt = 0; s.beginPeriod() || garbage || more {
		s.trimAt = now + trimPeriod
	}
}
