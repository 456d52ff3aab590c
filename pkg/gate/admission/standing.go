package admission

import (
	"math"
	"time"
)

const (
	// standingWindow is the minimum time over which a queue is judged. The window also
	// lasts until each slot has been granted once.
	standingWindow = int64(time.Second)
	// standingTarget is the time that requests may wait in a standing queue.
	standingTarget = int64(500 * time.Millisecond)
)

// standingQueue detects a standing queue, which is one that has stopped draining, and
// decides which of its requests are rejected. The algorithm is controlled delay for
// request queues (K. Nichols and V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5),
// 2012; B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015), with two differences. A queue
// that becomes shorter is a burst and not an overload, so it keeps all its requests. And
// one request per slot stays queued regardless of its wait, so that slow containers do
// not run idle.
//
// Example: a container with 20 slots receives three times the requests that it can serve,
// and its clients disconnect after 5 s:
//
//	time of a request  queue capacity  wait at capacity  standing queue  wait
//	20 ms              200             0.2 s             200             0.2 s
//	200 ms             200             2 s               50              0.5 s
//	1 s                200             10 s: none of the clients gets its response in time
//	                                                     20              1 s
//	5 s                200             50 s, the same    20              5 s
//
// The zero value is a queue that does not stand. Controller.mu guards it.
type standingQueue struct {
	standing bool
	since    int64 // time at which the window began
	depth    int   // number of queued requests at since
	handed   int   // number of slots granted to queued requests after since
}

// began starts the first window when a request is queued and the queue was empty. That
// window is not judged, because the requests may be a burst.
func (q *standingQueue) began(now int64) { *q = standingQueue{since: now, depth: math.MaxInt} }

// advance records that a slot goes to one of depth queued requests. If the queue has not
// become shorter during a window, it is standing until it is empty.
func (q *standingQueue) advance(now int64, depth, limit int) {
	q.handed++
	if now-q.since < standingWindow || q.handed < limit {
		return
	}
	if depth >= q.depth && depth > limit {
		q.standing = true
	}
	q.since, q.depth, q.handed = now, depth, 0
}

// rejects reports whether to reject the oldest of depth queued requests. waited is the
// time for which that request has been queued.
func (q *standingQueue) rejects(waited int64, depth, limit int) bool {
	return q.standing && waited > standingTarget && depth > limit
}
