package loop

import "iter"

// Runner is the code of one conversation that cannot be written in steps.
type Runner interface {
	// Run is the conversation; it blocks in Task.Wait only.
	Run(t *Task)
	// Recovered ends the conversation after a panic in Run.
	Recovered(t *Task, v any)
}

// Task is the coroutine of one conversation. It is used again for others
// after Run has returned.
type Task struct {
	handle  Handle
	run     Runner
	next    func() (struct{}, bool)
	cancel  func()
	yield   func(struct{}) bool
	waiting bool
}

// Start runs r in a coroutine, up to its first Wait, before it returns. It
// must be called on the loop but outside of any task.
func (l *Loop) Start(r Runner) {
	t := l.free.Get()
	if t == nil {
		t = &Task{}
		t.handle.Bind(l, t)
		t.next, t.cancel = iter.Pull(t.body)
	}
	t.run = r
	t.handle.Begin()
	t.enter()
}

// body is the coroutine: one conversation after the other.
func (t *Task) body(yield func(struct{}) bool) {
	t.yield = yield
	for {
		t.converse()
		t.run = nil
		t.handle.Done()
		if !t.handle.loop.free.Put(t) {
			t.handle.forget()
			return
		}
		if !yield(struct{}{}) {
			return
		}
	}
}

func (t *Task) converse() {
	defer func() {
		if v := recover(); v != nil {
			t.run.Recovered(t, v)
		}
	}()
	t.run.Run(t)
}

// Wait gives the thread back until an event on one of the task's sockets, a
// Wake, or the deadline (on the loop's clock; 0 = none). It may return early:
// callers check again what they wait for.
func (t *Task) Wait(deadline int64) {
	t.handle.Until(deadline)
	t.waiting = true
	t.yield(struct{}{})
	t.handle.Until(0)
}

// Yield lets the loop's other conversations go first.
func (t *Task) Yield() {
	t.Wake()
	t.Wait(0)
}

// Event resumes the task; it makes a Task the Handler of its sockets.
func (t *Task) Event(*Sock) { t.Step() }

// Wake resumes the task soon, as Handle.Wake does.
func (t *Task) Wake() { t.handle.Wake() }

// Loop is the loop that the task runs on.
func (t *Task) Loop() *Loop { return t.handle.loop }

// Step resumes the task if it waits.
func (t *Task) Step() {
	if t.waiting {
		t.enter()
	}
}

func (t *Task) enter() {
	t.waiting = false
	t.next()
}

func (t *Task) stop() {
	t.handle.forget()
	t.cancel()
}
