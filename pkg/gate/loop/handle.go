package loop

import "go.uber.org/atomic"

// Routine is work that a loop does a step at a time. A step does what can be
// done now, says with Handle.Until when it wants to run again at the latest,
// and returns.
type Routine interface{ Step() }

// Handle is a routine's place on its loop: what runs its steps. Events of
// sockets that it handles, wake-ups and its deadline each lead to one; steps
// may also come without a reason. The zero value belongs to no loop.
type Handle struct {
	loop     *Loop
	routine  Routine
	deadline int64 // 0 = none
	timer    timer
	index    int         // index among the loop's live handles plus one; 0 = not live
	woken    atomic.Bool // stands in the loop's list of woken handles
}

// Bind says once, before anything else, whose steps h runs, and where.
func (h *Handle) Bind(l *Loop, r Routine) {
	h.loop, h.routine, h.timer.handle = l, r, h
}

// Loop is the loop that h belongs to.
func (h *Handle) Loop() *Loop { return h.loop }

// Begin makes h live: the loop does not end before Done, and wakes h when it
// is to close.
func (h *Handle) Begin() {
	h.loop.live = append(h.loop.live, h)
	h.index = len(h.loop.live)
}

// End ends what Begin began. A wake-up that is under way may still lead to a
// step.
func (h *Handle) End() {
	live := h.loop.live
	last := live[len(live)-1]
	live[h.index-1], last.index = last, h.index
	live[len(live)-1] = nil
	h.loop.live = live[:len(live)-1]
	h.index, h.deadline = 0, 0
}

// SetDeadline sets the deadline, on the loop's clock; 0 = none. One that has passed
// leads to a step in the loop's next turn: events come in between, whatever a
// routine asks for.
func (h *Handle) SetDeadline(deadline int64) {
	h.deadline = deadline
	if deadline != 0 {
		h.loop.timers.ensure(&h.timer, max(deadline, h.loop.now+1))
	}
}

// Event makes a Handle the Handler of sockets.
func (h *Handle) Event(*Sock) { h.routine.Step() }

// Wake leads to a step soon. It may be called from any goroutine. Waking
// twice, or what is no longer live, is harmless.
func (h *Handle) Wake() {
	if h.woken.Swap(true) {
		return
	}
	l := h.loop
	l.inbox.wake(h)
	l.wakeUp()
}

// RemoveTimer removes what the loop still has of a handle that is not used again.
func (h *Handle) RemoveTimer() {
	h.deadline = 0
	h.loop.timers.remove(&h.timer)
}
