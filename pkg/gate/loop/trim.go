package loop

import "time"

const (
	// trimPeriod is how long a free coroutine must have been of no use before
	// it is let go.
	trimPeriod = int64(10 * time.Second)
	// keptTasks stay for the next burst in any case.
	keptTasks = 8
)

// Trimmed, if set before Run, is called on the loop when free coroutines were
// let go after a burst, with their number: the time to let go of what else the
// burst has left behind.
func (l *Loop) Trimmed(f func(tasks int)) { l.trimmed = f }

// freed takes a task whose conversation has ended.
func (l *Loop) freed(t *Task) {
	l.free = append(l.free, t)
	if l.trimAt == 0 && len(l.free) > keptTasks {
		l.trimAt, l.unused = l.now+trimPeriod, len(l.free)
	}
}

// reuse gives a free task, or nil. The last one freed is the first to be used
// again, so those that stay unused gather at the front.
func (l *Loop) reuse() *Task {
	n := len(l.free)
	if n == 0 {
		return nil
	}
	t := l.free[n-1]
	l.free[n-1] = nil
	l.free = l.free[:n-1]
	l.unused = min(l.unused, n-1)
	return t
}

// trim ends the tasks that nobody has needed for a period. While there are
// more than keptTasks it looks again after another one; an idle loop that has
// trimmed sleeps on.
func (l *Loop) trim() {
	n := min(l.unused, len(l.free)-keptTasks)
	for i := range n {
		l.free[i].stop()
		l.forget(l.free[i])
	}
	if n > 0 {
		rest := copy(l.free, l.free[n:])
		clear(l.free[rest:])
		l.free = l.free[:rest]
	}
	if l.trimAt = 0; len(l.free) > keptTasks {
		l.trimAt, l.unused = l.now+trimPeriod, len(l.free)
	}
	if n > 0 && l.trimmed != nil {
		l.trimmed(n)
	}
}
