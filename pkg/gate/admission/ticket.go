package admission

import (
	"github.com/queuegate/queuegate/pkg/gate"
)

// Ticket is the admission state of one request: none, queued, or holding a slot.
// Instants are in ns on the caller's clock. The zero Ticket is neither queued nor
// holds a slot; Waiter.Notify must be set before Acquire.
type Ticket struct {
	Waiter  Waiter
	Queued  bool
	Slot    bool
	WaitBy  int64 // the latest instant to leave the queue; 0 = no bound
	StartBy int64 // the latest instant to start the request; 0 = no bound
}

// TryAcquire takes a slot if one is free.
func (t *Ticket) TryAcquire(a *Controller) bool {
	t.Queued, t.Slot, t.WaitBy = false, a.TryAcquire(), 0
	return t.Slot
}

// Acquire takes a slot, or joins the queue.
func (t *Ticket) Acquire(a *Controller) Decision {
	v := a.Acquire(&t.Waiter)
	t.Queued, t.Slot, t.WaitBy = v == Queued, v == Admitted, 0
	return v
}

// Granted reports whether the queued request has been given a slot.
func (t *Ticket) Granted() bool {
	if !t.Waiter.Admitted() {
		return false
	}
	t.Queued, t.Slot, t.WaitBy = false, true, 0
	return true
}

// IsLate reports whether StartBy has passed.
func (t *Ticket) IsLate(now int64) bool { return t.StartBy != 0 && now >= t.StartBy }

// NextDeadline returns the earlier of WaitBy and StartBy; 0 = no bound.
func (t *Ticket) NextDeadline() int64 { return gate.Earliest(t.WaitBy, t.StartBy) }

// WaitExpired reports whether WaitBy has passed.
func (t *Ticket) WaitExpired(now int64) bool { return t.WaitBy != 0 && now >= t.WaitBy }

// Release releases the slot or the queue position. This includes a slot granted while the
// request was leaving the queue. It clears the deadlines.
func (t *Ticket) Release(a *Controller) {
	if t.Slot || t.Queued && !a.Withdraw(&t.Waiter) {
		a.Charge(&t.Waiter)
		a.Release()
	}
	t.Queued, t.Slot, t.WaitBy, t.StartBy = false, false, 0, 0
}
