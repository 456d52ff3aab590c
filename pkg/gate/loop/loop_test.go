package loop

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// testTimeout ends a test that hangs.
const testTimeout = 2 * time.Minute

// farAway is a deadline that no test reaches.
const farAway = int64(24 * time.Hour)

// startLoop runs a loop until the end of the test.
func startLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Close()
		if err := receive(t, ended); err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
	return l
}

func on(t *testing.T, l *Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	l.Post(func() { defer close(done); f() })
	receive(t, done)
}

func start(t *testing.T, l *Loop, run func(*Task)) {
	t.Helper()
	on(t, l, func() { l.begin(run) })
}

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testTimeout):
		buf := make([]byte, 1<<16)
		t.Fatalf("nothing received\n%s", buf[:runtime.Stack(buf, true)])
	}
	return v
}

func TestAWaitEndsAtItsDeadlineAndNotEarlier(t *testing.T) {
	l := startLoop(t)
	for range 20 {
		late := make(chan int64, 1)
		start(t, l, func(task *Task) {
			deadline := Nanotime() + int64(rand.IntN(3_000_000))
			for l.Now() < deadline {
				task.Wait(deadline)
			}
			late <- Nanotime() - deadline
		})
		if d := receive(t, late); d < 0 {
			t.Fatalf("loop's clock ran %d ns ahead", -d)
		}
	}
}

func TestAPastDeadlineDoesNotBlock(t *testing.T) {
	l := startLoop(t)
	done := make(chan struct{})
	start(t, l, func(task *Task) { task.Wait(1); close(done) })
	receive(t, done)
}

func TestADeadlineOfAnEarlierWaitDoesNotAffectLaterOnes(t *testing.T) {
	l := startLoop(t)
	type result struct{ early, woken int }
	done := make(chan result, 1)
	var task *Task
	var step atomic.Int32
	start(t, l, func(me *Task) {
		task = me
		soon := Nanotime() + int64(5*time.Millisecond)
		for step.Load() == 0 {
			me.Wait(soon + farAway)
		}
		me.Wait(soon) // a Wake may end this wait, but its timer stays in the heap
		var r result
		for step.Load() == 1 {
			me.Wait(0) // the timer of Wait(soon) must not end this wait
			r.early++
		}
		r.woken++
		done <- r
	})
	step.Store(1)
	task.Wake()
	// Another Task waits for longer than the first Task's timer.
	passed := make(chan struct{})
	start(t, l, func(other *Task) {
		deadline := Nanotime() + int64(20*time.Millisecond)
		for l.Now() < deadline {
			other.Wait(deadline)
		}
		close(passed)
	})
	receive(t, passed)
	step.Store(2)
	task.Wake()
	if r := receive(t, done); r.woken != 1 || r.early > 2 {
		t.Fatalf("resumed %d times without a reason", r.early)
	}
}

func TestLaterDeadlineDoesNotMoveTheTimer(t *testing.T) {
	l := startLoop(t)
	for range 5 { // other timers in the heap
		start(t, l, func(me *Task) {
			for !l.Closing() {
				me.Wait(Nanotime() + farAway/2)
			}
		})
	}
	var task *Task
	now := Nanotime()
	deadlines := []int64{now + farAway, now + 2*farAway, now + 3*farAway, now + farAway/4, now + 5*farAway}
	want := []int64{now + farAway, now + farAway, now + farAway, now + farAway/4, now + farAway/4}
	i := 0
	start(t, l, func(me *Task) {
		task = me
		for !l.Closing() && i < len(deadlines) {
			me.Wait(deadlines[i])
		}
	})
	for i < len(want) {
		var at int64
		var place, size int
		on(t, l, func() { at, place, size = task.Handle.timer.expiresAt, task.Handle.timer.index, len(l.timers) })
		if at != want[i] || place == 0 || size != 6 {
			t.Fatalf("wait %d: timer at +%d, index %d of %d; want +%d", i, at-now, place, size, want[i]-now)
		}
		on(t, l, func() { i++; task.Step() })
	}
}

func TestAnEarlierDeadlineFiresBeforeALaterOne(t *testing.T) {
	l := startLoop(t)
	woken := make(chan struct{})
	var task *Task
	stage := 0
	start(t, l, func(me *Task) {
		task = me
		for stage == 0 {
			me.Wait(Nanotime() + farAway)
		}
		for end := Nanotime() + int64(time.Millisecond); l.Now() < end; {
			me.Wait(end)
		}
		close(woken)
	})
	on(t, l, func() { stage = 1; task.Step() })
	receive(t, woken)
}

// Each number is sent only after the task has received the previous one, so a lost
// wake-up would block the test.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 100_000
	l := startLoop(t)
	var said atomic.Int64
	seen := make(chan int64, 1)
	var task *Task
	start(t, l, func(me *Task) {
		task = me
		for last := int64(0); last < rounds && !l.Closing(); {
			for said.Load() == last && !l.Closing() {
				me.Wait(0)
			}
			last = said.Load()
			seen <- last
		}
	})
	for i := int64(1); i <= rounds; i++ {
		said.Store(i)
		task.Wake()
		if i%64 == 0 {
			runtime.Gosched() // gives the loop time to sleep before the next Wake
		}
		select {
		case got := <-seen:
			if got != i {
				t.Fatalf("received %d, want %d", got, i)
			}
		case <-time.After(testTimeout):
			t.Fatalf("wake %d was lost", i)
		}
	}
}

// A loop that has been busy arms its wakeup poller before it sleeps. The loop must then
// poll once more. Otherwise it could sleep although an event is pending: the wakeup
// poller does not always report an event that came before it was armed.
func TestNoEventIsLostWhenABusyLoopGoesToSleep(t *testing.T) {
	l := startLoop(t)
	var socks [3]Sock
	var pairs [3][2]int
	for i := range pairs {
		pairs[i] = socketPair(t)
		defer unix.Close(pairs[i][1])
	}
	send := func(i int) { _, _ = unix.Write(pairs[i][1], []byte("x")) }
	var spin func(iterations int)
	spin = func(iterations int) {
		if iterations > 0 {
			l.Post(func() { spin(iterations - 1) })
			return
		}
		send(1)
	}
	done := make(chan struct{}, 1)
	for i, then := range []func(){
		func() { spin(2 * busyIterations) },
		func() { send(2) }, // sends after the loop has polled and before it sleeps
		func() { done <- struct{}{} },
	} {
		on(t, l, func() {
			err := l.Register(&socks[i], pairs[i][0], handlerFunc(func(s *Sock) {
				var b [8]byte
				if n, _ := s.Read(b[:]); n > 0 {
					then()
				}
			}))
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 10 {
		for !l.sleeping.Load() {
			runtime.Gosched()
		}
		send(0)
		receive(t, done)
	}
}

func TestNoWakeUpIsLostAmongManyWakers(t *testing.T) {
	const wakers, rounds = 4, 25_000
	l := startLoop(t)
	var credit [wakers]atomic.Int64
	done := make(chan struct{})
	var tasks [2]*Task
	for n := range tasks {
		start(t, l, func(me *Task) {
			tasks[n] = me
			sum := func() (s int64) {
				for i := n; i < wakers; i += len(tasks) {
					s += credit[i].Load()
				}
				return s
			}
			for sum() < rounds*wakers/int64(len(tasks)) && !l.Closing() {
				me.Wait(0)
			}
			done <- struct{}{}
		})
	}
	for i := range wakers {
		go func() {
			for range rounds {
				credit[i].Inc()
				tasks[i%len(tasks)].Wake()
				if rand.IntN(100) == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	for range tasks {
		receive(t, done)
	}
}

func TestAWakeUpAfterTheEndOfARoutineIsHarmless(t *testing.T) {
	l := startLoop(t)
	var old *Task
	start(t, l, func(me *Task) { old = me })
	old.Wake()
	old.Wake()
	on(t, l, func() {})
	on(t, l, func() {
		if len(l.live) != 0 {
			t.Errorf("%d routines are live", len(l.live))
		}
	})
}

func TestRemoveTimerRemovesTheTimerOfAHandle(t *testing.T) {
	l := startLoop(t)
	on(t, l, func() {
		handles := make([]Handle, 100)
		for i := range handles {
			handles[i].Bind(l, &Task{})
			handles[i].SetDeadline(Nanotime() + farAway)
			handles[i].RemoveTimer()
		}
		if len(l.timers) != 0 {
			t.Errorf("%d timers left", len(l.timers))
		}
	})
}

func TestPostedFunctionsRunInOrder(t *testing.T) {
	l := startLoop(t)
	const posters, each = 4, 5000
	var got [posters][]int
	var wg sync.WaitGroup
	for p := range posters {
		wg.Go(func() {
			for i := range each {
				l.Post(func() { got[p] = append(got[p], i) })
			}
		})
	}
	wg.Wait()
	on(t, l, func() {
		for p := range got {
			if len(got[p]) != each || !slices.IsSorted(got[p]) {
				t.Errorf("poster %d: %d functions ran, in order: %v", p, len(got[p]), slices.IsSorted(got[p]))
			}
		}
	})
}

func TestFunctionPostedOnTheLoopRunsLater(t *testing.T) {
	l := startLoop(t)
	done := make(chan []int, 1)
	var order []int
	l.Post(func() {
		l.Post(func() { order = append(order, 2); done <- order })
		order = append(order, 1)
	})
	if got := receive(t, done); !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("order %v", got)
	}
}

func TestCloseWakesEveryWaitingRoutineAndLetsItFinish(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	const tasks = 2000
	finished := 0
	for i := range tasks {
		start(t, l, func(me *Task) {
			for !l.Closing() {
				me.Wait(int64(i%2) * (Nanotime() + farAway))
			}
			me.Wait(Nanotime() + int64(i%3)*int64(time.Millisecond)) // some waits end later
			finished++
		})
	}
	select {
	case err := <-ended:
		t.Fatalf("the loop ended by itself: %v", err)
	default:
	}
	l.Close()
	l.Close()
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	if finished != tasks {
		t.Fatalf("%d of %d tasks finished", finished, tasks)
	}
	goleak.VerifyNone(t)
}

func TestRunReturnsImmediatelyAfterClose(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
}

func TestPostAndWakeAfterTheEndDoNothing(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	var task *Task
	start(t, l, func(me *Task) {
		for task = me; !l.Closing(); {
			me.Wait(0)
		}
	})
	l.Close()
	receive(t, ended)
	l.Post(func() { t.Error("ran after the end") })
	task.Wake()
	l.Close()
}

func TestAnEndedLoopReleasesItsDescriptors(t *testing.T) {
	var pair [2]int
	var before, after unix.Stat_t
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	pair = socketPair(t)
	if err := l.Register(&Sock{}, pair[0], ignoreEvents{}); err != nil {
		t.Fatal(err)
	}
	fds := []int{l.epfd, l.wakeup.fd, pair[0]}
	for _, fd := range fds {
		if err := unix.Fstat(fd, &before); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if err := unix.Fstat(fd, &after); err != unix.EBADF {
			t.Errorf("descriptor %d is still open: %v", fd, err)
		}
	}
	_ = unix.Close(pair[1])
}

func TestALoopSleepsWhenThereIsNothingToDo(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var wakeups atomic.Int64
	ended := make(chan error, 1)
	go func() { // does what Run does, and counts wake-ups
		err := l.poller.raw.Read(func(fd uintptr) bool {
			wakeups.Inc()
			return l.runPending(fd)
		})
		l.release()
		ended <- err
	}()
	start(t, l, func(me *Task) {
		for !l.Closing() {
			me.Wait(Nanotime() + farAway)
		}
	})
	on(t, l, func() {})
	before := wakeups.Load()
	time.Sleep(50 * time.Millisecond) // a longer time makes the test stricter
	if n := wakeups.Load() - before; n > 3 {
		t.Errorf("the loop woke up %d times without work", n)
	}
	l.Close()
	if err := receive(t, ended); err != nil {
		t.Errorf("the loop ended with %v", err)
	}
}

func TestClockConvertsToWallTime(t *testing.T) {
	before := time.Now()
	ns := Nanotime()
	after := time.Now()
	if got := TimeOf(ns); got.Before(before) || got.After(after) {
		t.Fatalf("%s is not within %s and %s", got, before, after)
	}
}
