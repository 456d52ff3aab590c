package simulate

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// live has the settings that change while the gate runs.
type live struct {
	*world
	rules     *exchange.Config // settings in force; immutable
	changes   int
	changedAt int64 // time of the last change

	// Requests in flight and queued requests above a lowered bound. The numbers may only
	// fall.
	flying, waiting int
	reordered       bool // the order of the queue changed (class, key, or FIFO)
}

// liveSeed is the seed of a separate random source. With this value the settings of the
// runs in testdata/seeds do not change, and the runs still reproduce their faults.
const liveSeed = 0x13fc

// drawLive draws how often the settings change.
func drawLive(seed uint64) *live {
	l := &live{world: &world{rng: rand.New(rand.NewPCG(seed, liveSeed))}}
	if l.chance(0.2) {
		l.changes = 1 + l.rng.IntN(8)
	}
	return l
}

// changeSettings changes some live settings, as annotations on a pod do.
func (r *run) changeSettings() {
	if r.isDone {
		return
	}
	l, base := r.live, &r.settings.gate
	next := *l.rules
	ms := func(low, high int64) time.Duration { return time.Duration(l.randomIn(low, high)) * time.Millisecond }
	maybe := func(change func()) {
		if l.chance(0.4) {
			change()
		}
	}
	maybe(func() { next.ConcurrencyLimit, next.Overload.AutoLimit = pick(l.world, 0, 1, 2, 3, 10), nil })
	maybe(func() { next.QueueCapacity = pick(l.world, 0, 1, 3, 100) })
	maybe(func() { next.QueueMaxWait = pick(l.world, 0, ms(5, 500)) })
	maybe(func() { next.QueueRefusalStatus = pick(l.world, 0, 429, 503) })
	maybe(func() { next.RequestTimeout = ms(200, 20_000) })
	maybe(func() { next.ResponseStartTimeout = pick(l.world, 0, ms(100, 5_000)) })
	maybe(func() { next.IdleTimeout = pick(l.world, 0, ms(100, 5_000)) })
	maybe(func() { next.TunnelMax = pick(l.world, 0, ms(100, 10_000)) })
	maybe(func() { next.UpstreamWait, next.UpstreamRestartWait = ms(50, 2_000), ms(20, 1_000) })
	maybe(func() { next.Overload.MeasuredRetry = l.chance(0.5) })
	o := &next.Overload
	maybe(func() { o.FairBy = pick(l.world, base.Overload.FairBy, exchange.Selector{}) })
	maybe(func() { o.PriorityBy = pick(l.world, base.Overload.PriorityBy, exchange.Selector{}) })
	maybe(func() { o.DeadlineBy = pick(l.world, base.Overload.DeadlineBy, exchange.Selector{}) })
	if base.Overload.Evict.Set() {
		maybe(func() { o.Evict = pick(l.world, drawRule(l.world), exchange.Eviction{}) })
	}
	if !o.PriorityBy.Set() {
		o.Evict = exchange.Eviction{}
	}
	if base.Overload.CostLimit > 0 && l.chance(0.4) {
		o.CostBy, o.CostLimit = base.Overload.CostBy, pick(l.world, 1, 50, 5000)
		if l.chance(0.3) {
			o.CostBy, o.CostLimit = exchange.Selector{}, 0
		}
	}
	if l.chance(0.15) {
		low := 1 + l.rng.IntN(3)
		o.AutoLimit = &admission.LimitRange{Min: low, Max: low + l.rng.IntN(20)}
	}
	if r.wait.enabled && l.chance(0.5) {
		r.wait.drawSettings(&next)
	}
	l.reordered = l.reordered || o.FairBy != l.rules.Overload.FairBy || o.PriorityBy != l.rules.Overload.PriorityBy
	if err := r.gate.Apply(&next); err != nil {
		r.found("settings are rejected: %v", err)
		return
	}
	l.rules, l.changedAt = &next, r.now
	a := r.gate.Admission
	l.flying, l.waiting = a.InFlight(), a.QueueDepth()
	most := next.ConcurrencyLimit
	if o.AutoLimit != nil {
		most = o.AutoLimit.Max
	}
	if r.load.topLimit = max(r.load.topLimit, most); most == 0 || r.load.unbounded {
		r.load.topLimit, r.load.unbounded = 0, true
	}
	if o.AutoLimit != nil {
		r.load.allowed, r.load.inFlight = a.Limit(), a.InFlight()
	}
	r.note("settings change: limit %d, capacity %d", a.Limit(), a.Capacity())
	r.betweenEvents()
}

func isFair(c *exchange.OverloadConfig) bool { return c.FairBy.Set() || c.PriorityBy.Set() }

// checkBounds checks the concurrency limit and the queue capacity. Requests above a
// lowered bound may stay.
func (r *run) checkBounds() {
	l, g, a := r.live, r.live.rules, r.gate.Admission
	inFlight, depth, limit := a.InFlight(), a.QueueDepth(), g.ConcurrencyLimit
	switch numConnects := r.gate.Connects.Len(); {
	case limit == 0 && l.changedAt == 0 && numConnects > g.QueueCapacity:
		r.found("%d requests are in the connect queue, the capacity is %d", numConnects, g.QueueCapacity)
	case limit == 0 && depth > 0 && r.metered():
	case limit == 0 && depth > 0:
		r.found("%d requests are queued although there is no limit", depth)
	case limit == 0:
	case inFlight > max(limit, l.flying) || depth > max(g.QueueCapacity, l.waiting):
		r.found("%d in flight of %d, %d queued of %d", inFlight, limit, depth, g.QueueCapacity)
	case depth > 0 && inFlight < limit && !r.metered():
		r.found("%d requests are queued, but only %d of %d are in flight", depth, inFlight, limit)
	}
	l.flying, l.waiting = min(l.flying, inFlight), min(l.waiting, depth)
}

// judgeStatus checks that a rejected request has the status in force when it arrived.
func (r *run) judgeStatus(q *request, status int) {
	if m := q.outcome.Meaning(); q.endings == 1 && m.QueueRetry && q.outcome != gate.ShuttingDown {
		if want := cmp.Or(q.rules.QueueRefusalStatus, m.Status); status != want {
			r.found("request %d: %s with status %d, want %d", q.id, q.outcome, status, want)
		}
	}
}
