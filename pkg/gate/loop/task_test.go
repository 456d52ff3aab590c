package loop

import "iter"

// Task is a routine written as a coroutine that blocks only in Wait.
type Task struct {
	Handle
	next    func() (struct{}, bool)
	yield   func(struct{}) bool
	waiting bool
}

// begin runs f as a Task until its first Wait. Call it on the loop.
func (l *Loop) begin(f func(*Task)) {
	t := &Task{}
	t.Bind(l, t)
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		f(t)
		t.End()
		t.RemoveTimer()
	})
	t.Begin()
	t.next()
}

func (t *Task) Step() {
	if t.waiting {
		t.waiting = false
		t.next()
	}
}

// Wait returns after an event of a socket of t, after a Wake, or at the deadline (0 =
// none). It may also return earlier.
func (t *Task) Wait(deadline int64) {
	t.SetDeadline(deadline)
	t.waiting = true
	t.yield(struct{}{})
	t.SetDeadline(0)
}

// Yield lets other routines of the loop step first.
func (t *Task) Yield() {
	t.Wake()
	t.Wait(0)
}
