package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// overload has the overload settings, and observations for the oracle. It has a separate
// random source.
type overload struct {
	*world
	keys      int     // different keys of the clients
	newKeys   float64 // share of requests with a unique key
	class     float64 // share of requests with a class
	deadline  float64 // share of requests with a deadline
	topLimit  int     // highest limit of the run so far; 0 if unbounded
	unbounded bool    // at some time of the run there was no limit
	allowed   int     // highest limit since the last check
	inFlight  int     // requests in flight at the last check
	longest   int64   // longest time from arrival to the end
	samples   int     // requests with a response
}

// lateness formats a deadline.
var lateness = []func(ms int64) string{
	func(ms int64) string { return fmt.Sprintf("%dm", ms) },
	func(ms int64) string { return fmt.Sprintf("%du", ms*1000) },
	func(ms int64) string { return fmt.Sprintf("%dms", ms) },
	func(ms int64) string { return fmt.Sprintf("%.3fs", float64(ms)/1000) },
}

// endlessDeadlines never pass.
var endlessDeadlines = []string{"99999999H", "99999999999999999999", "2562047h", "9223372036S", "18446744073709551615"}

func selector(text string) exchange.Selector {
	s, err := exchange.ParseSelector(text)
	if err != nil {
		panic(err)
	}
	return s
}

func drawOverload(seed uint64, s *settings) *overload {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x0ff))}
	g := &s.gate
	o := &overload{world: w, topLimit: g.ConcurrencyLimit, unbounded: g.ConcurrencyLimit == 0}
	if w.chance(0.6) {
		return o
	}
	c := &g.Overload
	if w.chance(0.3) {
		low := 1 + w.rng.IntN(3)
		c.AutoLimit = &admission.LimitRange{Min: low, Max: low + w.rng.IntN(20)}
		o.topLimit, o.unbounded = c.AutoLimit.Max, false
	} else if g.ConcurrencyLimit == 0 {
		g.ConcurrencyLimit = pick(w, 1, 2, 3, 10)
		o.topLimit, o.unbounded = g.ConcurrencyLimit, false
	}
	g.QueueCapacity = pick(w, 1, 3, 10, 100)
	if w.chance(0.6) {
		c.FairBy = selector(pick(w, "header:X-Tenant", "header:x-tenant", "peer"))
		o.keys = int(w.randomIn(1, 6))
		o.newKeys = pick(w, 0, 0, 0.3, 0.9)
	}
	if w.chance(0.5) {
		c.PriorityBy = selector("header:Priority")
		o.class = pick(w, 0.3, 0.9)
	}
	if w.chance(0.5) {
		c.DeadlineBy = selector(pick(w, "header:grpc-timeout", "header:X-Deadline"))
		o.deadline = pick(w, 0.1, 0.5)
	}
	c.MeasuredRetry = w.chance(0.5)
	return o
}

// drawCosts limits the cost of requests in flight in some runs. The cost is the body
// size. The separate random source keeps the other choices of a seed.
func drawCosts(seed uint64, s *settings) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0xc057))}
	g := &s.gate
	if w.chance(0.8) || isFair(&g.Overload) {
		return
	}
	selector, err := exchange.ParseCostSelector("length")
	if err != nil {
		panic(err)
	}
	g.Overload.CostBy, g.Overload.CostLimit = selector, pick(w, 1, 3, 100, 2000, 20_000)
}

// checkUnits checks the units in use. They may exceed a lowered limit until requests end.
func (r *run) checkUnits() {
	a := r.gate.Admission
	units, limit := a.Units()
	switch {
	case limit == 0 && r.live.changedAt == 0 && units != 0, units < 0, units > 0 && a.InFlight() == 0:
		r.found("%d units of %d are held by %d requests", units, limit, a.InFlight())
	case r.live.changedAt == 0 && units > limit && a.InFlight() > 1:
		r.found("%d requests hold %d units of %d", a.InFlight(), units, limit)
	case r.live.changedAt == 0 && limit > 0 && units < a.InFlight():
		r.found("%d requests hold only %d units", a.InFlight(), units)
	case a.QueueDepth() > 0 && a.InFlight() == 0:
		r.found("%d requests are queued although nothing is in flight", a.QueueDepth())
	}
}

// metered reports whether Overload.CostLimit or Overload.Brake is in force. Requests may
// then be queued although slots are free.
func (r *run) metered() bool {
	return r.live.rules.Overload.CostLimit > 0 || r.live.rules.Overload.Brake
}

// admission returns the controller of c, on the simulated clock.
func (r *run) admission(c *exchange.Config) *admission.Controller {
	limit := c.ConcurrencyLimit
	if a := c.Overload.AutoLimit; a != nil {
		limit = admission.NewAutoLimit(*a).Limit()
	}
	return admission.New(admission.Config{
		Limit: limit, Capacity: c.QueueCapacity, Fair: r.fair(), CostLimit: c.Overload.CostLimit, Brake: c.Overload.Brake, Clock: r.kernel.Nanotime,
	})
}

// fair reports whether the queue is no FIFO.
func (r *run) fair() bool {
	return isFair(&r.settings.gate.Overload)
}

// draw draws the key, class and deadline of q.
func (o *overload) draw(q *request, c *exchange.OverloadConfig) {
	q.class = admission.DefaultClass
	if o.keys > 0 && o.rng.IntN(8) > 0 {
		n := o.rng.IntN(o.keys)
		if o.rng.IntN(2) == 0 {
			n = 0 // the first key is more frequent than the others
		}
		q.tenant = "t" + strconv.Itoa(n)
		if o.chance(o.newKeys) {
			q.tenant = "n" + strconv.Itoa(q.id)
		}
		q.lines = append(q.lines, [2]string{"X-Tenant", q.tenant})
	}
	if o.chance(o.class) {
		n := o.rng.IntN(admission.Classes)
		q.class = n
		text := pick(o.world, "%d", "u=%d", "i, u=%d", "u=%d,i")
		if o.rng.IntN(10) == 0 {
			text, q.class = "x%d", admission.DefaultClass
		}
		q.lines = append(q.lines, [2]string{"Priority", fmt.Sprintf(text, n)})
	}
	if o.chance(o.deadline) {
		ms := o.spread(1, 4000)
		text := ""
		if o.chance(0.1) {
			text = pick(o.world, endlessDeadlines...)
		} else {
			q.deadline, text = ms*millisecond, pick(o.world, lateness...)(ms)
		}
		q.lines = append(q.lines, [2]string{c.DeadlineBy.String()[len("header:"):], text})
	}
}

// key returns the fairness key of q within its class.
func (r *run) key(q *request) string {
	switch r.settings.gate.Overload.FairBy.String() {
	case "":
		return ""
	case "peer":
		return q.clientAddress
	}
	return q.tenant
}

// checkLimit checks the adaptive limit.
func (r *run) checkLimit() {
	o, g := r.load, r.live.rules
	a := r.gate.Admission
	limit, inFlight := a.Limit(), a.InFlight()
	o.allowed = max(o.allowed, limit)
	switch depth := a.QueueDepth(); {
	case limit < g.Overload.AutoLimit.Min || limit > g.Overload.AutoLimit.Max:
		r.found("the limit is %d, outside %v", limit, *g.Overload.AutoLimit)
	case inFlight > o.allowed && inFlight > o.inFlight:
		r.found("%d in flight, %d before, although the limit was at most %d", inFlight, o.inFlight, o.allowed)
	case depth > max(g.QueueCapacity, r.live.waiting):
		r.found("%d requests are queued, the capacity is %d", depth, g.QueueCapacity)
	case depth > 0 && inFlight < limit && !r.metered():
		r.found("%d requests are queued, but only %d of %d are in flight", depth, inFlight, limit)
	}
	o.allowed, o.inFlight = limit, inFlight
	r.live.waiting = min(r.live.waiting, a.QueueDepth())
}

// judgeDeadline checks that a request is rejected because of its deadline if and only if
// the rules require it.
func (r *run) judgeDeadline(q *request, x *gate.Record) {
	o := r.load
	age := r.now - q.begunAt
	if x.Responded != 0 { // a sample of the service time, whatever the outcome
		o.samples++
		o.longest = max(o.longest, age)
	}
	if a := r.gate.Admission; r.live.rules.Overload.AutoLimit != nil {
		o.allowed = max(o.allowed, a.Limit())
	}
	if q.deadline == 0 || !q.rules.Overload.DeadlineBy.Set() {
		if x.Outcome == gate.DeadlineExceeded {
			r.found("request %d: deadline-exceeded, but it has no deadline", q.id)
		}
		return
	}
	if x.Outcome != gate.DeadlineExceeded {
		if delay := time.Duration(q.headAt - q.begunAt - q.deadline - r.slack() - r.trickle(q)); r.h2.upH2 {
			if delay > 20*time.Millisecond && r.kernel.settings.segment == 0 && q.heads == 1 && q.numUnprocessed == 0 {
				r.found("request %d: reached the container %v after its deadline", q.id, delay)
			}
			return
		}
		if x.Forwarded > time.Duration(q.begunAt+q.deadline+r.kernel.maxDelay+millisecond) {
			r.found("request %d: sent to the container %v after its deadline", q.id, x.Forwarded-time.Duration(q.begunAt+q.deadline))
		}
		return
	}
	// The gate may count a response that is not delivered yet.
	typical, samples := o.longest, o.samples+len(r.underWay)
	for _, other := range r.underWay {
		typical = max(typical, r.now-other.begunAt)
	}
	if samples < 8 {
		typical = 0 // too few samples
	}
	if age+typical < q.deadline {
		r.found("request %d: deadline-exceeded after %v, the deadline was %v", q.id, time.Duration(age), time.Duration(q.deadline))
	}
	if q.heads > 0 && q.breaks == 0 {
		r.found("request %d: deadline-exceeded, but the container has received it", q.id)
	}
}

// checkDeadlines checks, when nothing is in transit, that no queued request is past its
// deadline.
func (r *run) checkDeadlines() {
	if !r.settings.gate.Overload.DeadlineBy.Set() {
		return
	}
	for _, q := range r.underWay {
		if q.deadline > 0 && q.rules.Overload.DeadlineBy.Set() && q.record.Forwarded == 0 && q.heads == 0 && r.now > q.begunAt+q.deadline+r.slack() && r.waitsForSlot(q) {
			r.unresolved = append(r.unresolved, q)
		}
	}
	if q := firstOf(r.unresolved); q != nil {
		r.found("request %d: still queued %v after its deadline", q.id, time.Duration(r.now-q.begunAt-q.deadline))
	}
	r.unresolved = r.unresolved[:0]
}

// waitsForSlot reports whether q has no slot. A request with a slot may wait beyond its
// deadline, for a descriptor or for a container that does not listen.
func (r *run) waitsForSlot(q *request) bool { return q.record.Admitted == 0 }

// judgeRetry checks Retry-After in a local reply.
func (r *run) judgeRetry(q *request, fields [][2]string) {
	text, n := get(fields, "Retry-After")
	o := q.outcome
	if q.endings == 0 {
		return
	}
	seconds, err := strconv.Atoi(text)
	switch {
	case o == gate.WaitingPage && text != "2":
		r.found("request %d: Retry-After %q with the waiting page", q.id, text)
	case o == gate.WaitingPage:
	case !o.Meaning().Retry && n == 0:
	case !o.Meaning().Retry || n != 1 || err != nil || seconds < 1 || seconds > 60:
		r.found("request %d: Retry-After %q in a reply with outcome %s", q.id, text, o)
	case seconds != 1 && !(q.rules.Overload.MeasuredRetry && (o.Meaning().QueueRetry)):
		r.found("request %d: Retry-After %q, which was not measured", q.id, text)
	}
}

// judgeQueueFull checks that the queue was full. The loop of a shed request may handle
// the rejection later.
func (r *run) judgeQueueFull(q *request) bool {
	a := r.gate.Admission
	full := (a.InFlight() >= a.Limit() || r.metered()) && a.QueueDepth() >= r.live.rules.QueueCapacity
	return full || r.fair() && r.fullAt >= q.begunAt || r.live.changedAt >= q.begunAt
}

// noteFull records that the queue is full.
func (r *run) noteFull() {
	if a := r.gate.Admission; a.Limit() > 0 && a.InFlight() >= a.Limit() && a.QueueDepth() >= r.live.rules.QueueCapacity {
		r.fullAt = r.now
	}
}

// queueEnd returns when q left the queue.
func (q *request) queueEnd() int64 {
	if q.admittedAt > 0 {
		return int64(q.admittedAt)
	}
	return q.endedAt
}

// judgeFairness checks the order of admission at the end of a run.
func (r *run) judgeFairness() {
	var all []*request
	for _, q := range r.requests {
		if q.begun == 1 && q.endings == 1 {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	for _, q := range all {
		if q.outcome == gate.QueueFull && r.settings.gate.QueueCapacity > 0 && r.live.changedAt == 0 {
			r.judgeShed(q, all)
		}
	}
	r.judgeKeys(all)
	if r.kernel.maxDelay == 0 {
		r.judgeAging(all)
	}
}

// ownFlows is the number of keys of a class that have a separate flow while they have
// queued requests.
const ownFlows = 16

// judgeShed checks that shedding q was right.
func (r *run) judgeShed(q *request, all []*request) {
	sameKey, byKey := 0, map[string]int{}
	for _, o := range all {
		if o.class == q.class && r.key(o) == r.key(q) && o.begunAt <= q.endedAt && o.queueEnd() >= q.begunAt {
			sameKey++ // upper bound
		}
		if o.begunAt >= q.begunAt || o.queueEnd() <= q.endedAt+r.kernel.maxDelay {
			continue
		}
		// o was queued from before the arrival of q until after q was shed.
		if o.class > q.class {
			r.found("request %d: shed from class %d, while %d of class %d is queued", q.id, q.class, o.id, o.class)
			return
		}
		if o.class == q.class {
			byKey[r.key(o)]++
		}
	}
	if r.mayShareFlows(q, all) {
		return
	}
	for key, n := range byKey {
		if n > sameKey {
			r.found("request %d: shed from a key with at most %d queued, while key %[4]q has %[3]d", q.id, sameKey, n, key)
			return
		}
	}
}

// mayShareFlows reports whether keys of q's class may have shared a flow while q was
// queued. That needs more than ownFlows keys since the class was last empty.
func (r *run) mayShareFlows(q *request, all []*request) bool {
	busy := q.begunAt // since when the class has had queued requests
	for earlier := true; earlier; {
		earlier = false
		for _, o := range all {
			if o.class == q.class && o.begunAt < busy && o.queueEnd() >= busy {
				busy, earlier = o.begunAt, true
			}
		}
	}
	keys := map[string]bool{}
	for _, o := range all {
		if o.class == q.class && o.queueEnd() >= busy && o.begunAt <= q.endedAt {
			keys[r.key(o)] = true
		}
	}
	return len(keys) > ownFlows
}

// judgeKeys checks that requests with equal class and key were admitted in order of
// arrival.
func (r *run) judgeKeys(all []*request) {
	type lane struct {
		class int
		key   string
	}
	latest := map[lane]*request{}
	for _, q := range all {
		if q.admittedAt == 0 {
			continue
		}
		l := lane{q.class, r.key(q)}
		if o := latest[l]; o != nil && o.admittedAt > q.admittedAt+time.Duration(r.kernel.maxDelay) {
			r.found("request %d: admitted at %v, but %d, which arrived earlier with the same key, at %v", q.id, q.admittedAt, o.id, o.admittedAt)
			return
		}
		latest[l] = q
	}
}

// judgeAging checks that no class was passed over more often than aging allows. A loop
// records a slot for its request in its next iteration, so the order of slots granted by
// other loops is unknown.
func (r *run) judgeAging(all []*request) {
	if r.settings.loops > 1 {
		return
	}
	// A class is aged after 16 grants to other classes. Each other aged class may then be
	// served first. Grants to lower aged classes no longer count once this class is the
	// highest aged one.
	const most = 16 + 2*(admission.Classes-1)
	granted := slices.DeleteFunc(slices.Clone(all), func(q *request) bool { return q.admittedAt == 0 })
	slices.SortFunc(granted, func(a, b *request) int { return cmp.Compare(a.admittedAt, b.admittedAt) })
	for class := range admission.Classes {
		instants := grantsTo(class, granted)
		for _, w := range all {
			if w.class != class || w.queueEnd() <= w.begunAt {
				continue
			}
			numPassed := 0
			for _, i := range instants {
				switch {
				case i.time <= w.begunAt || i.time >= w.queueEnd():
				case i.gotSlot:
					numPassed = 0
				default:
					numPassed += i.numOthers
				}
				if numPassed > most {
					r.found("request %d: of class %d, %d slots in a row were granted to other classes while it was queued", w.id, class, numPassed)
					return
				}
			}
		}
	}
}

// grants are the slots granted at one time, in unknown order.
type grants struct {
	time      int64
	gotSlot   bool // the class got a slot
	numOthers int
}

func grantsTo(class int, granted []*request) (instants []grants) {
	for _, q := range granted {
		at := int64(q.admittedAt)
		if n := len(instants); n == 0 || instants[n-1].time != at {
			instants = append(instants, grants{time: at})
		}
		i := &instants[len(instants)-1]
		switch {
		case q.class == class:
			i.gotSlot = true
		case at > q.begunAt: // at a time when the request was queued
			i.numOthers++
		}
	}
	return instants
}
