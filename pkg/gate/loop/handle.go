package loop

import "go.uber.org/atomic"

// Routine is work that a loop runs in steps. Step does what is possible without blocking,
// sets the latest time of the next step with Handle.SetDeadline, and returns.
type Routine interface{ Step() }

// Handle schedules the steps of a routine on its loop: after each event of its sockets,
// after each Wake and at the deadline. A step may also run for none of these reasons.
type Handle struct {
	loop     *Loop
	routine  Routine
	deadline int64 // 0 = none
	timer    timer
	index    int         // index in Loop.live plus 1; 0 = not live
	woken    atomic.Bool // h is in the loop's inbox
}

// Bind sets the loop and the routine. Call it once, before any other method.
func (h *Handle) Bind(l *Loop, r Routine) {
	h.loop, h.routine, h.timer.handle = l, r, h
}

// Loop returns the loop that h belongs to.
func (h *Handle) Loop() *Loop { return h.loop }

// Begin makes h live. The loop runs until no handle is live, and wakes live handles when
// it is asked to close.
func (h *Handle) Begin() {
	h.loop.live = append(h.loop.live, h)
	h.index = len(h.loop.live)
}

// End undoes Begin. A pending wake-up may still cause a step.
func (h *Handle) End() {
	live := h.loop.live
	last := live[len(live)-1]
	live[h.index-1], last.index = last, h.index
	live[len(live)-1] = nil
	h.loop.live = live[:len(live)-1]
	h.index, h.deadline = 0, 0
}

// SetDeadline sets the time of the next step on the loop's clock; 0 = none. If this time
// has passed, the step runs in the next iteration of the loop and not in the current one.
// Otherwise a routine that always sets such deadlines would starve the loop.
func (h *Handle) SetDeadline(deadline int64) {
	h.deadline = deadline
	if deadline != 0 {
		h.loop.timers.ensure(&h.timer, max(deadline, h.loop.now+1))
	}
}

// Event implements Handler.
func (h *Handle) Event(*Sock) { h.routine.Step() }

// Wake causes a step soon. It may be called from any goroutine, repeatedly, and when the
// handle is no longer live.
func (h *Handle) Wake() {
	if h.woken.Swap(true) {
		return
	}
	l := h.loop
	l.inbox.wake(h)
	l.wakeUp()
}

// RemoveTimer removes the timer of a handle that will not be used again.
func (h *Handle) RemoveTimer() {
	h.deadline = 0
	h.loop.timers.remove(&h.timer)
}
