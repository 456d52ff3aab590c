package loop

import "testing"

func endPeriod(t *testing.T, l *Loop) {
	t.Helper()
	on(t, l, func() {
		if l.trimAt != 0 {
			l.trimAt = 1
		}
	})
	on(t, l, func() {}) // when this function runs, the timers have run
}

const minFree = 8

func newFreeList(t *testing.T, l *Loop) (s *FreeList[int], dropped *int) {
	t.Helper()
	s, dropped = &FreeList[int]{}, new(int)
	on(t, l, func() { s.Init(l, minFree, 1000, func(*int) { *dropped++ }) })
	return s, dropped
}

// burst gets n objects from s and puts them back.
func burst(t *testing.T, l *Loop, s *FreeList[int], n int) {
	t.Helper()
	on(t, l, func() {
		taken := make([]*int, n)
		for i := range taken {
			if taken[i] = s.Get(); taken[i] == nil {
				taken[i] = new(int)
			}
		}
		for _, x := range taken {
			s.Put(x)
		}
	})
}

func TestUnusedObjectsOfABurstAreDiscarded(t *testing.T) {
	l := startLoop(t)
	s, dropped := newFreeList(t, l)
	collections := 0
	on(t, l, func() { l.OnTrim(collectionsOf(&collections)) })
	burst(t, l, s, 100)
	endPeriod(t, l)
	endPeriod(t, l)
	on(t, l, func() {
		if s.Len() != minFree || *dropped != 100-minFree {
			t.Errorf("%d objects are left after two periods and %d were discarded, want %d and %d", s.Len(), *dropped, minFree, 100-minFree)
		}
		if collections != 1 || l.trimAt != 0 {
			t.Errorf("%d collections, next trim at %d; want 1 and none", collections, l.trimAt)
		}
	})
}

func TestATrimIsRepeatedWhileATrimFunctionReturnsTrue(t *testing.T) {
	l := startLoop(t)
	trims := 0
	on(t, l, func() {
		l.OnTrim(func(bool) bool { trims++; return trims < 3 })
		l.ScheduleTrim()
	})
	for range 5 {
		endPeriod(t, l)
	}
	on(t, l, func() {
		if trims != 3 || l.trimAt != 0 {
			t.Errorf("%d trims, next at %d; want 3 and none", trims, l.trimAt)
		}
	})
}

func TestUsedObjectsAreNotDiscarded(t *testing.T) {
	l := startLoop(t)
	s, _ := newFreeList(t, l)
	burst(t, l, s, 60)
	endPeriod(t, l)
	burst(t, l, s, 60) // all of them within one period
	endPeriod(t, l)
	on(t, l, func() {
		if s.Len() != 60 {
			t.Errorf("%d objects are left after a period that needed 60", s.Len())
		}
	})
}

func TestFreeListsAreBounded(t *testing.T) {
	l := startLoop(t)
	s, _ := newFreeList(t, l)
	burst(t, l, s, 1050)
	on(t, l, func() {
		if s.Len() != 1000 {
			t.Errorf("%d objects on the list, want 1000", s.Len())
		}
	})
}

func collectionsOf(n *int) func(bool) bool {
	return func(collect bool) bool {
		if collect {
			*n++
		}
		return false
	}
}

func TestTheGarbageCollectorRunsAfterAPeriodWithoutNewGarbage(t *testing.T) {
	l := startLoop(t)
	collections := 0
	on(t, l, func() { l.OnTrim(collectionsOf(&collections)) })
	drop := func(n int) { on(t, l, func() { l.AddGarbage(n) }) }
	want := func(when string, n int, next bool) {
		t.Helper()
		endPeriod(t, l)
		on(t, l, func() {
			if collections != n || (l.trimAt != 0) != next {
				t.Errorf("%s: %d collections, next trim at %d; want %d and %v", when, collections, l.trimAt, n, next)
			}
		})
	}
	drop(minCollectBytes / 2)
	want("too little", 0, false)
	drop(minCollectBytes)
	want("a period with garbage", 0, true)
	drop(1)
	want("another one", 0, true)
	want("a period without", 1, false)
	drop(minCollectBytes - 1)
	want("counted from the last collection on", 1, false)
	drop(1)
	want("enough again", 1, true)
	want("a period without", 2, false)
}
