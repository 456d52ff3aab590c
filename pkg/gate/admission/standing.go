package admission

import (
	"math"
	"time"
)

const (
	// standingWindow is the minimum duration of a window, over which the change of the
	// queue length is measured. A window ends when it has lasted this long and one
	// queued request per slot has been admitted.
	standingWindow = int64(time.Second)
	// standingTarget is the time that requests may wait in a standing queue.
	standingTarget = int64(500 * time.Millisecond)
)

// standingQueue detects a standing queue, which is a queue that has stopped draining,
// and decides which of its requests are rejected. The algorithm is controlled delay for
// request queues (K. Nichols and V. Jacobson, "Controlling Queue Delay", ACM Queue
// 10(5), 2012; B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015), with two
// differences. A queue that becomes shorter is a burst and not an overload, so all its
// requests are kept. As many requests as there are slots stay queued, however long they
// wait, so that a slow container does not run idle.
//
// Example: a container with 20 slots receives three times as many requests as it can
// serve. The queue capacity is 200 requests. The table shows how many requests are
// queued and how long each of them waits:
//
//	              without standingQueue  with standingQueue
//	service time  queued   wait          queued   wait
//	20 ms         200      0.2 s         200      0.2 s
//	200 ms        200      2 s           50       0.5 s
//	1 s           200      10 s          20       1 s
//
// If the clients disconnect after 5 s, none of them gets its response after a wait of
// 10 s.
//
// The zero value is a queue that is not standing. Controller.mu guards it.
type standingQueue struct {
	standing    bool
	windowStart int64 // time at which the window began
	depth       int   // number of queued requests when the window began
	handed      int   // number of slots granted to queued requests since the window began
}

// began starts the first window when a request is queued and the queue was empty. That
// window is not judged, because the requests may be a burst.
func (q *standingQueue) began(now int64) { *q = standingQueue{windowStart: now, depth: math.MaxInt} }

// advance records that a queued request is about to get a slot. The parameter depth is
// the number of queued requests, and limit is the number of slots. At the end of a
// window, the queue is standing if it has not become shorter and has more requests than
// slots. It then remains standing until it is empty.
func (q *standingQueue) advance(now int64, depth, limit int) {
	q.handed++
	if now-q.windowStart < standingWindow || q.handed < limit {
		return
	}
	if depth >= q.depth && depth > limit {
		q.standing = true
	}
	q.windowStart, q.depth, q.handed = now, depth, 0
}

// rejects reports whether to reject the oldest queued request. The parameter waited is
// the time since that request was queued. The parameter depth is the number of queued
// requests, and limit is the number of slots.
func (q *standingQueue) rejects(waited int64, depth, limit int) bool {
	return q.standing && waited > standingTarget && depth > limit
}
