package gate

import (
	"container/heap"
	"time"
)

const (
	// Classes is the number of priority classes, as many as RFC 9218 has
	// urgencies.
	Classes = 8
	// DefaultClass is that of a request that says nothing (RFC 9218 section 4.1).
	DefaultClass = 3
	// passedMost is how many slots in a row a class with waiters may be passed
	// over before it gets one: no class starves.
	passedMost = 16
	// firstCost is what a slot is taken to cost before one has been measured.
	firstCost = int64(time.Millisecond)
)

// fairQueue orders those who wait by class, and within a class by key, so that
// each key gets the same service (start-time fair queueing: Goyal, Vin and
// Cheng, 1996): the key that has had least goes next. With equal costs that is
// round robin. Within a key the order is strict FIFO. A key costs memory only
// while one of its requests waits, or is in flight after it has waited. The
// owner's lock guards it.
type fairQueue struct {
	clock   func() int64
	classes [Classes]class
	flows   map[flowKey]*flow
	spare   []*flow
	cost    int64 // mean time that a slot is held, in ns
	turn    uint64
}

type flowKey struct {
	key   uint64
	class uint8
}

// flow is what waits for one key in one class.
type flow struct {
	flowKey
	waiters fifo
	waiting int
	holding int    // in flight, granted from here, not charged yet
	served  int64  // virtual time at which it is due: service had, in ns
	turn    uint64 // order among those that are due at the same time
	due     int    // index in class.due
	length  int    // index in class.longest
}

// class is one priority class.
type class struct {
	due     flowHeap // flows with waiters, the one whose turn it is first
	longest flowHeap // the same flows, the one with most waiters first
	waiting int
	virtual int64 // of the latest grant: a flow that begins to wait is due no earlier
	passed  int   // slots that went to a higher class since the last one here
}

func newFairQueue(clock func() int64) *fairQueue {
	if clock == nil {
		start := time.Now()
		clock = func() int64 { return int64(time.Since(start)) }
	}
	q := &fairQueue{clock: clock, flows: map[flowKey]*flow{}, cost: firstCost}
	for i := range q.classes {
		q.classes[i].due = flowHeap{before: isDueBefore, index: func(f *flow) *int { return &f.due }}
		q.classes[i].longest = flowHeap{before: isLonger, index: func(f *flow) *int { return &f.length }}
	}
	return q
}

func isDueBefore(a, b *flow) bool {
	return a.served < b.served || a.served == b.served && a.turn < b.turn
}

func isLonger(a, b *flow) bool { return a.waiting > b.waiting }

// push appends w to those of its class and key.
func (q *fairQueue) push(w *Waiter) {
	f := q.flow(w)
	c := &q.classes[f.class]
	w.flow = f
	f.waiters.push(w)
	f.waiting++
	c.waiting++
	if f.waiting > 1 {
		c.longest.moved(f)
		return
	}
	f.served = max(f.served, c.virtual)
	f.turn = q.nextTurn()
	heap.Push(&c.due, f)
	heap.Push(&c.longest, f)
}

// flow finds or makes the flow of w.
func (q *fairQueue) flow(w *Waiter) *flow {
	k := flowKey{w.Key, min(w.Class, Classes-1)}
	f := q.flows[k]
	if f != nil {
		return f
	}
	if n := len(q.spare); n > 0 {
		f, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		f = new(flow)
	}
	*f = flow{flowKey: k}
	q.flows[k] = f
	return f
}

func (q *fairQueue) nextTurn() uint64 {
	q.turn++
	return q.turn
}

// pop takes out the one whose turn it is; nil if none waits.
func (q *fairQueue) pop() *Waiter {
	c := q.nextClass()
	if c == nil {
		return nil
	}
	f := c.due.flows[0]
	w := f.waiters.head
	c.virtual = f.served
	f.served += q.cost
	f.turn = q.nextTurn()
	f.holding++
	w.granted, w.charged = q.clock(), q.cost
	q.take(w)
	return w
}

// nextClass is the highest class in which anyone waits, unless one below it has
// been passed over too often.
func (q *fairQueue) nextClass() *class {
	var first, aged *class
	for i := range q.classes {
		c := &q.classes[i]
		switch {
		case c.waiting == 0:
		case first == nil:
			first = c
		default:
			if c.passed++; c.passed > passedMost && aged == nil {
				aged = c
			}
		}
	}
	if aged != nil {
		first = aged
	}
	if first != nil {
		first.passed = 0
	}
	return first
}

// take removes w, which waits, from its flow, and keeps the order of flows.
func (q *fairQueue) take(w *Waiter) {
	f := w.flow
	c := &q.classes[f.class]
	f.waiters.remove(w)
	f.waiting--
	c.waiting--
	if f.waiting == 0 {
		c.due.remove(f)
		c.longest.remove(f)
		q.forget(f)
		return
	}
	c.due.moved(f)
	c.longest.moved(f)
}

// forget drops f if nothing is left of it.
func (q *fairQueue) forget(f *flow) {
	if f.waiting > 0 || f.holding > 0 {
		return
	}
	delete(q.flows, f.flowKey)
	if len(q.spare) < 64 {
		q.spare = append(q.spare, f)
	}
}

// remove takes out w, which gives up.
func (q *fairQueue) remove(w *Waiter) {
	q.take(w)
	w.flow = nil
}

// shed takes out the one that is to make place for w: the newest of the key
// with most waiters in the lowest class in which anyone waits. It is nil where
// w itself is to be turned away: it is of a lower class than all who wait, or
// no key would have more waiters than its own.
func (q *fairQueue) shed(w *Waiter) *Waiter {
	lowest := Classes - 1
	for lowest > 0 && q.classes[lowest].waiting == 0 {
		lowest--
	}
	own := int(min(w.Class, Classes-1))
	if own > lowest || q.classes[lowest].waiting == 0 {
		return nil
	}
	f := q.classes[lowest].longest.flows[0]
	if own == lowest {
		waiting := 1
		if mine := q.flows[flowKey{w.Key, uint8(own)}]; mine != nil {
			waiting += mine.waiting
		}
		if waiting >= f.waiting {
			return nil
		}
	}
	victim := f.waiters.tail
	q.remove(victim)
	return victim
}

// charge corrects what the flow of w was charged for its slot.
func (q *fairQueue) charge(w *Waiter) {
	f := w.flow
	took := max(q.clock()-w.granted, 0)
	q.cost += (took - q.cost) / 16
	q.cost = max(q.cost, 1)
	w.flow = nil
	f.holding--
	f.served += took - w.charged
	if f.waiting > 0 {
		q.classes[f.class].due.moved(f)
	}
	q.forget(f)
}

// flowHeap is a heap.Interface of flows which know their places in it.
type flowHeap struct {
	flows  []*flow
	before func(a, b *flow) bool
	index  func(*flow) *int
}

func (h *flowHeap) Len() int           { return len(h.flows) }
func (h *flowHeap) Less(i, j int) bool { return h.before(h.flows[i], h.flows[j]) }

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

// remove takes f out.
func (h *flowHeap) remove(f *flow) { heap.Remove(h, *h.index(f)) }

// moved puts f where it belongs after it has changed.
func (h *flowHeap) moved(f *flow) { heap.Fix(h, *h.index(f)) }
