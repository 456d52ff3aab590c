package loop

import (
	"iter"

	"go.uber.org/atomic"
)

// Runner is the code of one conversation.
type Runner interface {
	// Run is the conversation; it blocks in Task.Wait only.
	Run(t *Task)
	// Recovered ends the conversation after a panic in Run.
	Recovered(t *Task, v any)
}

// Task is the coroutine of one conversation. It is used again for others
// after Run has returned; Local goes along with it and so carries buffers.
type Task struct {
	// Local belongs to the user of the package.
	Local any

	loop     *Loop
	run      Runner
	next     func() (struct{}, bool)
	cancel   func()
	yield    func(struct{}) bool
	deadline int64 // of the current Wait; 0 = none
	timer    timer
	waiting  bool
	at       int         // index in the loop's tasks
	queued   atomic.Bool // stands in the loop's list of woken tasks
}

// Start runs r in a coroutine, up to its first Wait, before it returns. It
// must be called on the loop but outside of any task.
func (l *Loop) Start(r Runner) {
	t := l.reuse()
	if t == nil {
		t = &Task{loop: l, at: len(l.tasks)}
		l.tasks = append(l.tasks, t)
		t.timer.task = t
		t.next, t.cancel = iter.Pull(t.body)
	}
	t.run = r
	l.live++
	t.enter()
}

// body is the coroutine: one conversation after the other.
func (t *Task) body(yield func(struct{}) bool) {
	t.yield = yield
	for {
		t.converse()
		t.run = nil
		t.loop.live--
		if len(t.loop.free) >= maxFreeTasks {
			t.loop.forget(t)
			return
		}
		t.loop.freed(t)
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

// forget drops a task whose coroutine ends.
func (l *Loop) forget(t *Task) {
	l.timers.remove(&t.timer)
	last := len(l.tasks) - 1
	l.tasks[t.at] = l.tasks[last]
	l.tasks[t.at].at = t.at
	l.tasks[last] = nil
	l.tasks = l.tasks[:last]
}

// Wait gives the thread back until an event on one of the task's sockets, a
// Wake, or the deadline (on the loop's clock; 0 = none). It may return early:
// callers look again at what they wait for.
func (t *Task) Wait(deadline int64) {
	t.deadline = deadline
	if deadline != 0 {
		t.loop.timers.ensure(&t.timer, deadline)
	}
	t.waiting = true
	t.yield(struct{}{})
	t.deadline = 0
}

// Yield lets the loop's other conversations go first.
func (t *Task) Yield() {
	t.Wake()
	t.Wait(0)
}

// Event resumes the task; it makes a Task the Handler of its sockets.
func (t *Task) Event(*Sock) { t.resume() }

// Wake resumes the task soon. It may be called from any goroutine. Waking
// twice, or after the conversation has ended, is harmless: Wait may return
// early in any case.
func (t *Task) Wake() {
	if t.queued.Swap(true) {
		return
	}
	l := t.loop
	l.mu.Lock()
	l.woken = append(l.woken, t)
	l.mu.Unlock()
	l.rouse()
}

// Loop is the loop that the task runs on.
func (t *Task) Loop() *Loop { return t.loop }

func (t *Task) resume() {
	if t.waiting {
		t.enter()
	}
}

func (t *Task) enter() {
	t.waiting = false
	t.next()
}

func (t *Task) stop() {
	t.loop.timers.remove(&t.timer)
	t.cancel()
}
