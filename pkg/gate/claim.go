package gate

// claim is what an exchange has of Admission: nothing, a place in the queue, or
// a slot.
type claim struct {
	waiter Waiter
	queued bool
	slot   bool
	giveUp int64 // when the place in the queue is given up; 0 = no bound

	begunBy int64 // from then on the request must not be begun any more; 0 = no bound
}

// take takes a slot if one is free.
func (c *claim) take(a *Admission) bool {
	c.queued, c.slot, c.giveUp = false, a.TryBegin(), 0
	return c.slot
}

// begin asks for a slot, or a place in the queue.
func (c *claim) begin(a *Admission) Verdict {
	v := a.Begin(&c.waiter)
	c.queued, c.slot, c.giveUp = v == Queued, v == Admitted, 0
	return v
}

// granted reports whether the place in the queue has become a slot.
func (c *claim) granted() bool {
	if !c.waiter.Admitted() {
		return false
	}
	c.queued, c.slot, c.giveUp = false, true, 0
	return true
}

// late reports whether it is too late for the request to begin.
func (c *claim) late(now int64) bool { return c.begunBy != 0 && now >= c.begunBy }

// next is the earliest instant at which waiting for a slot ends; 0 = no bound.
func (c *claim) next() int64 { return Earliest(c.giveUp, c.begunBy) }

// expired reports that the place in the queue has been held for too long.
func (c *claim) expired(now int64) bool { return c.giveUp != 0 && now >= c.giveUp }

// release gives back whatever there is. A slot that came when the place in the
// queue was given up is given back too.
func (c *claim) release(a *Admission) {
	if c.slot || c.queued && !a.Withdraw(&c.waiter) {
		a.Charge(&c.waiter)
		a.End()
	}
	c.queued, c.slot, c.giveUp = false, false, 0
}
