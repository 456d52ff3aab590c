package loop

import (
	"runtime"
	"testing"
)

// due ends the current trimming period and returns the number of free tasks.
func due(t *testing.T, l *Loop) (free int) {
	t.Helper()
	on(t, l, func() {
		if l.trimAt != 0 {
			l.trimAt = 1
		}
	})
	on(t, l, func() {}) // timers have run in between
	on(t, l, func() { free = l.free.Len() })
	return free
}

// crowd runs n conversations at once and lets them end.
func crowd(t *testing.T, l *Loop, n int) {
	t.Helper()
	release, ended := make(chan struct{}), make(chan struct{}, n)
	tasks := make(chan *Task, n)
	for range n {
		start(t, l, func(task *Task) {
			tasks <- task
			for {
				select {
				case <-release:
					ended <- struct{}{}
					return
				default:
					task.Wait(0)
				}
			}
		})
	}
	close(release)
	for range n {
		(<-tasks).Wake()
	}
	for range n {
		receive(t, ended)
	}
}

func TestTasksOfABurstAreLetGoWhenTheyAreOfNoUse(t *testing.T) {
	l := startLoop(t)
	collections := 0
	on(t, l, func() { l.Trimmed(collectionsOf(&collections)) })
	before := runtime.NumGoroutine()
	crowd(t, l, 100)
	due(t, l)
	if free := due(t, l); free != keptTasks {
		t.Fatalf("%d free tasks after two periods, want %d", free, keptTasks)
	}
	on(t, l, func() {
		if collections != 1 || l.trimAt != 0 {
			t.Errorf("%d collections, next look at %d; want 1 and none", collections, l.trimAt)
		}
	})
	if left := runtime.NumGoroutine() - before; left > keptTasks {
		t.Errorf("%d goroutines stayed", left)
	}
	crowd(t, l, 2*keptTasks) // the loop goes on as before
}

func TestTasksInUseAreNotLetGo(t *testing.T) {
	l := startLoop(t)
	crowd(t, l, 60)
	due(t, l)
	crowd(t, l, 60) // all of them, within one period
	if free := due(t, l); free != 60 {
		t.Errorf("%d free tasks after a period that needed 60", free)
	}
}

func collectionsOf(n *int) func(bool) {
	return func(collect bool) {
		if collect {
			*n++
		}
	}
}

func TestGarbageIsCollectedOnceNoMoreIsAdded(t *testing.T) {
	l := startLoop(t)
	collections := 0
	on(t, l, func() { l.Trimmed(collectionsOf(&collections)) })
	drop := func(n int) { on(t, l, func() { l.Dropped(n) }) }
	want := func(when string, n int, next bool) {
		t.Helper()
		due(t, l)
		on(t, l, func() {
			if collections != n || (l.trimAt != 0) != next {
				t.Errorf("%s: %d collections, next look at %d; want %d and %v", when, collections, l.trimAt, n, next)
			}
		})
	}
	drop(collectBytes / 2)
	want("too little", 0, false)
	drop(collectBytes)
	want("a period with garbage", 0, true)
	drop(1)
	want("another one", 0, true)
	want("a period without", 1, false)
	drop(collectBytes - 1)
	want("counted from the last collection on", 1, false)
	drop(1)
	want("enough again", 1, true)
	want("a period without", 2, false)
}
