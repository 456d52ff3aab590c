package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// evictionSeed is the seed of a separate random source. With this value the runs in
// testdata/seeds have no evictions, and still reproduce their faults.
const evictionSeed = 0xe71c

// drawEviction enables evictions in some runs with priorities.
func drawEviction(seed uint64, s *settings) {
	w := &world{rng: rand.New(rand.NewPCG(seed, evictionSeed))}
	if o := &s.gate.Overload; w.chance(0.5) && o.PriorityBy.Set() {
		o.Evict = drawRule(w)
	}
}

func drawRule(w *world) exchange.Eviction {
	return exchange.Eviction{
		Class: uint8(w.randomIn(1, admission.Classes-1)),
		After: time.Duration(w.spread(1, 500)) * time.Millisecond,
		Rate:  pick(w, 0.5, 5, 50),
	}
}

// judgeEvicted reports whether a queued request may have evicted q. Both may be on
// different loops, each with a delay.
func (r *run) judgeEvicted(q *request, x *gate.Record) bool {
	lowest := -1 // lowest class of the requests that may have evicted q
	for _, o := range r.requests {
		e := o.rules
		if o.begun == 0 || e == nil || !e.Overload.Evict.Set() || o.class >= q.class || q.class < int(e.Overload.Evict.Class) || q.class < int(q.rules.Overload.Evict.Class) || !q.rules.Overload.Evict.Set() {
			continue
		}
		leftAt := r.now // o is still queued
		if o.record != nil && o.endings == 0 && o.record.Admitted > 0 {
			leftAt = int64(o.record.Admitted)
		} else if o.endings > 0 {
			leftAt = o.queueEnd()
		}
		slotTime := int64(0)
		if r.settings.gate.HardConcurrency {
			// With a hard limit, an evicted request keeps its slot until the container
			// has finished. So q may have been evicted at any time since its admission.
			slotTime = r.now - int64(x.Admitted)
		}
		if r.now-o.begunAt >= int64(e.Overload.Evict.After)-r.kernel.maxDelay && leftAt >= r.now-slotTime-2*r.kernel.maxDelay-millisecond {
			lowest = max(lowest, o.class)
		}
	}
	if lowest < 0 {
		return false
	}
	r.judgeEvictionRate(q)
	r.judgeYoungest(q, x, lowest)
	return true
}

// judgeEvictionRate checks the rate limit over each period between an earlier eviction
// and now.
func (r *run) judgeEvictionRate(q *request) {
	r.evictedAt = append(r.evictedAt, r.now)
	if r.live.changes > 0 || r.settings.gate.HardConcurrency {
		return
	}
	burst, rate := float64(max(r.load.topLimit/4, 1)), q.rules.Overload.Evict.Rate
	for i, at := range r.evictedAt {
		n, period := len(r.evictedAt)-i, time.Duration(r.now-at+2*r.kernel.maxDelay+millisecond)
		if float64(n) > burst+period.Seconds()*rate+1e-6 {
			r.found("request %d: evicted as number %d within %v, the budget is %v and %v per second", q.id, n, period, burst, rate)
			return
		}
	}
}

// judgeYoungest checks that q is the youngest request that could be evicted. With delays
// of loops it cannot tell, because a victim ends some time after it was selected.
func (r *run) judgeYoungest(q *request, x *gate.Record, lowest int) {
	if r.kernel.maxDelay > 0 || r.live.changes > 0 || r.settings.gate.HardConcurrency {
		return
	}
	for _, o := range r.underWay {
		// A request whose record has ended holds no slot.
		if o == q || o.class <= lowest || o.class < int(q.rules.Overload.Evict.Class) || o.record.Ended != 0 || o.record.Status == 101 || o.record.Unlimited {
			continue
		}
		if o.record.Admitted > x.Admitted+time.Millisecond && int64(o.record.Admitted) < r.now-millisecond && o.disconnectedAt == 0 {
			r.found("request %d: evicted, although %d of class %d was admitted later, at %v instead of %v", q.id, o.id, o.class, o.record.Admitted, x.Admitted)
			return
		}
	}
}
