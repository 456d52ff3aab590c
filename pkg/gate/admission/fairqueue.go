package admission

import (
	"container/heap"
	"time"
)

const (
	// Classes is the number of priority classes, equal to the number of urgency levels
	// in RFC 9218.
	Classes = 8
	// DefaultClass is the class of a request without a priority (RFC 9218 section 4.1).
	DefaultClass = 3
	// maxPassed is the number of consecutive grants to higher classes after which a class
	// with queued requests receives the next grant, so that no class starves.
	maxPassed = 16
	// firstCost is the assumed service time of a request until one has been measured.
	firstCost = int64(time.Millisecond)
	// exclusiveFlows is the number of queued keys per class that have a flow each. All
	// other keys are hashed to sharedFlows flows.
	exclusiveFlows, sharedFlows = 16, 64
	// maxDebt limits the debt of a flow, which is flow.served minus the virtual time of
	// the class. The debt is at most maxDebt times the mean cost of a request. Without
	// this limit, a key whose tunnel has lasted an hour would get no slot for about an
	// hour.
	maxDebt = 64
	// maxOutlier limits how much one request can change the mean cost. It is a multiple
	// of that mean.
	maxOutlier = 8
	// unitService is the service charged for one unit of Config.CostLimit.
	unitService = minCost
	// minCost is the lower bound of the mean cost, far above the rounding error of its
	// update.
	minCost = int64(time.Microsecond)
)

// fairQueue orders queued requests by class, and within a class by key, so that each
// key gets the same service. The requests of one key form a flow. The algorithm is
// start-time fair queueing (Goyal, Vin and Cheng, 1996): the next slot goes to the flow
// that has received the least service. If all requests cost the same, this is round
// robin. Two additions protect other keys against clients that send a new key with each
// request:
//
//   - Each class has a virtual time, and the service of a new flow starts at this
//     value. Each grant advances the virtual time by the mean cost of a request,
//     divided by the number of waiting flows plus one, as in bit-by-bit round robin
//     (Demers, Keshav and Shenker, 1989). Therefore new flows overtake a waiting flow
//     for about one round only. In plain start-time fair queueing the virtual time
//     would stand still while new flows keep arriving.
//   - The number of waiting flows is bounded. If a class has exclusiveFlows flows,
//     further keys are hashed to shared flows, as in stochastic fairness queueing
//     (McKenney, 1990). The hash is seeded per process (keySeed).
//
// Within a flow the order is strict FIFO. A flow uses memory only while it has a queued
// request, or a request in flight that was queued before. Controller.mu guards the
// fairQueue.
type fairQueue struct {
	clock   func() int64
	classes [Classes]class
	// flows contains each flow that has a queued request, or a request in flight that
	// was queued in it.
	flows   map[flowKey]*flow
	free    []*flow
	byUnits bool // flows are charged by the cost of their requests, not by time
	// cost is the mean charge of a request in ns. If byUnits is set, one unit of the
	// cost of a request is charged as unitService ns.
	cost int64
	seq  uint64 // number of the latest enqueue or grant
}

type flowKey struct {
	key    uint64 // for a shared flow: the hash of the key
	class  uint8
	shared bool
}

// flow holds queued requests of one class. An exclusive flow holds those of one key, a
// shared flow those of all keys that are hashed to it.
type flow struct {
	flowKey
	waiters fifo
	waiting int
	// inFlight is the number of requests that were granted a slot from this flow and
	// whose actual service time is not known yet.
	inFlight int
	// served is a virtual time in ns. It increases with the service charged to the
	// flow. In each class, the flow with the lowest value is next.
	served       int64
	seq          uint64 // tie-breaker between flows of equal service
	serviceIndex int    // index in class.byService
	lengthIndex  int    // index in class.byLength
}

// class is one priority class.
type class struct {
	byService     flowHeap // flows with queued requests, least service first
	byLength      flowHeap // the same flows, most queued requests first
	waiting       int
	virtual       int64 // virtual time in ns, at which a newly active flow starts
	numPassedOver int   // how often this class was passed over since its last grant; see pass
}

func newFairQueue(clock func() int64, byUnits bool) *fairQueue {
	q := &fairQueue{clock: clock, flows: map[flowKey]*flow{}, cost: firstCost, byUnits: byUnits}
	for i := range q.classes {
		q.classes[i].byService = flowHeap{less: hasLessService, index: func(f *flow) *int { return &f.serviceIndex }}
		q.classes[i].byLength = flowHeap{less: isLonger, index: func(f *flow) *int { return &f.lengthIndex }}
	}
	return q
}

func hasLessService(a, b *flow) bool {
	return a.served < b.served || a.served == b.served && a.seq < b.seq
}

func isLonger(a, b *flow) bool { return a.waiting > b.waiting }

// push appends w to the flow of its class and key.
func (q *fairQueue) push(w *Waiter) {
	f := q.flow(w)
	c := &q.classes[f.class]
	w.flow = f
	f.waiters.Push(w)
	f.waiting++
	c.waiting++
	if f.waiting > 1 {
		c.byLength.fix(f)
		return
	}
	f.served = max(f.served, c.virtual)
	f.seq = q.nextSeq()
	heap.Push(&c.byService, f)
	heap.Push(&c.byLength, f)
}

// flow finds or creates the flow of w.
func (q *fairQueue) flow(w *Waiter) *flow {
	k := q.keyOf(w)
	f := q.flows[k]
	if f != nil {
		return f
	}
	if n := len(q.free); n > 0 {
		f, q.free = q.free[n-1], q.free[:n-1]
	} else {
		f = new(flow)
	}
	*f = flow{flowKey: k}
	q.flows[k] = f
	return f
}

// keyOf returns the key of the flow that w joins. While requests of a key are queued in a
// flow, exclusive or shared, later requests of that key join the same flow.
func (q *fairQueue) keyOf(w *Waiter) flowKey {
	own := flowKey{key: w.Key, class: min(w.Class, Classes-1)}
	shared := flowKey{key: w.Key % sharedFlows, class: own.class, shared: true}
	switch {
	case q.hasWaiters(own):
		return own
	case q.hasWaiters(shared), len(q.classes[own.class].byService.flows) >= exclusiveFlows:
		return shared
	}
	return own
}

// hasWaiters reports whether the flow of k has a queued request.
func (q *fairQueue) hasWaiters(k flowKey) bool {
	f := q.flows[k]
	return f != nil && f.waiting > 0
}

func (q *fairQueue) nextSeq() uint64 {
	q.seq++
	return q.seq
}

// chargeBy sets whether flows are charged by units. A change sets the service of all
// queued flows to the same value, because units and time cannot be compared.
func (q *fairQueue) chargeBy(units bool) {
	if q.byUnits == units {
		return
	}
	q.byUnits, q.cost = units, firstCost
	for i := range q.classes {
		c := &q.classes[i]
		for _, f := range c.byService.flows {
			f.served = c.virtual
		}
		heap.Init(&c.byService)
	}
}

// next returns the waiter to be granted next, without removing it; nil = the queue is
// empty.
func (q *fairQueue) next() *Waiter {
	c := q.nextClass()
	if c == nil {
		return nil
	}
	return c.byService.flows[0].waiters.First()
}

// pop removes and returns the waiter to be granted next; nil = the queue is empty.
func (q *fairQueue) pop() *Waiter {
	c := q.nextClass()
	if c == nil {
		return nil
	}
	q.pass(c)
	f := c.byService.flows[0]
	w := f.waiters.First()
	charge := q.cost
	if q.byUnits {
		charge = max(w.cost(), 1) * unitService
		q.addCost(charge)
	}
	c.virtual = max(c.virtual, f.served) + q.cost/int64(len(c.byService.flows)+1)
	f.served = min(f.served+charge, c.virtual+maxDebt*q.cost)
	f.seq = q.nextSeq()
	f.inFlight++
	w.grantedAt, w.charged = q.clock(), charge
	q.unlink(w)
	return w
}

// nextClass returns the highest class with queued requests, unless a lower class has
// been passed over too often; nil = the queue is empty.
func (q *fairQueue) nextClass() *class {
	var first *class
	for i := range q.classes {
		c := &q.classes[i]
		switch {
		case c.waiting == 0:
		case first == nil:
			first = c
		case c.numPassedOver >= maxPassed:
			return c
		}
	}
	return first
}

// pass records that the class chosen receives the next grant. Each other class with
// queued requests has now been passed over once more. The highest class with queued
// requests is not counted, because nextClass prefers it in any case.
func (q *fairQueue) pass(chosen *class) {
	first := true
	for i := range q.classes {
		c := &q.classes[i]
		switch {
		case c.waiting == 0:
		case first:
			first = false
		default:
			c.numPassedOver++
		}
	}
	chosen.numPassedOver = 0
}

// unlink removes w from its flow and updates the order of flows.
func (q *fairQueue) unlink(w *Waiter) {
	f := w.flow
	c := &q.classes[f.class]
	f.waiters.Remove(w)
	f.waiting--
	c.waiting--
	if f.waiting == 0 {
		c.byService.remove(f)
		c.byLength.remove(f)
		q.releaseIfUnused(f)
		return
	}
	c.byService.fix(f)
	c.byLength.fix(f)
}

// releaseIfUnused frees f if none of its requests is queued or in flight.
func (q *fairQueue) releaseIfUnused(f *flow) {
	if f.waiting > 0 || f.inFlight > 0 {
		return
	}
	delete(q.flows, f.flowKey)
	if len(q.free) < 64 {
		q.free = append(q.free, f)
	}
}

// remove removes w, which was withdrawn or shed.
func (q *fairQueue) remove(w *Waiter) {
	q.unlink(w)
	w.flow = nil
}

// shed makes room for w in a full queue: it removes and returns the waiter that w
// replaces. This is the newest waiter of the longest flow in the lowest class that has
// queued requests. shed returns nil if w must be rejected instead. This is the case if
// all queued requests are of higher classes than w, or if the flow of w would become
// the longest one of that class.
func (q *fairQueue) shed(w *Waiter) *Waiter {
	lowest := Classes - 1
	for lowest > 0 && q.classes[lowest].waiting == 0 {
		lowest--
	}
	own := int(min(w.Class, Classes-1))
	if own > lowest || q.classes[lowest].waiting == 0 {
		return nil
	}
	f := q.classes[lowest].byLength.flows[0]
	if own == lowest {
		waiting := 1
		if mine := q.flows[q.keyOf(w)]; mine != nil {
			waiting += mine.waiting
		}
		if waiting >= f.waiting {
			return nil
		}
	}
	victim := f.waiters.Last()
	q.remove(victim)
	return victim
}

// charge replaces the estimated charge of w by the actual service time, unless w was
// charged by units.
func (q *fairQueue) charge(w *Waiter) {
	f := w.flow
	w.flow = nil
	f.inFlight--
	if !q.byUnits && w.cost() == 0 {
		took := max(q.clock()-w.grantedAt, 0)
		q.addCost(took)
		f.served = min(f.served+took-w.charged, q.classes[f.class].virtual+maxDebt*q.cost)
	}
	if f.waiting > 0 {
		q.classes[f.class].byService.fix(f)
	}
	q.releaseIfUnused(f)
}

// addCost adds the charge of a request to the mean.
func (q *fairQueue) addCost(charge int64) {
	q.cost += (min(charge, maxOutlier*q.cost) - q.cost) / 16
	q.cost = max(q.cost, minCost)
}

// flowHeap is a heap.Interface of flows that know their index in it.
type flowHeap struct {
	flows []*flow
	less  func(a, b *flow) bool
	index func(*flow) *int
}

func (h *flowHeap) Len() int           { return len(h.flows) }
func (h *flowHeap) Less(i, j int) bool { return h.less(h.flows[i], h.flows[j]) }

func (h *flowHeap) Swap(i, j int) {
	h.flows[i], h.flows[j] = h.flows[j], h.flows[i]
	*h.index(h.flows[i]), *h.index(h.flows[j]) = i, j
}

func (h *flowHeap) Push(f any) {
	*h.index(f.(*flow)) = len(h.flows)
	h.flows = append(h.flows, f.(*flow))
}

func (h *flowHeap) Pop() any {
	last := len(h.flows) - 1
	f := h.flows[last]
	h.flows[last] = nil
	h.flows = h.flows[:last]
	return f
}

func (h *flowHeap) remove(f *flow) { heap.Remove(h, *h.index(f)) }

func (h *flowHeap) fix(f *flow) { heap.Fix(h, *h.index(f)) }
