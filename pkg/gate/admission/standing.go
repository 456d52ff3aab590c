package admission

import (
	"math"
	"time"
)

const (
	// standingWindow is the shortest time over which a queue is judged; it also lasts
	// for one request per slot.
	standingWindow = int64(time.Second)
	// standingTarget is how long requests wait in a queue that stands.
	standingTarget = int64(500 * time.Millisecond)
)

// standingQueue tells a queue that stands from one that drains, and which requests a
// standing one rejects. The algorithm is controlled delay for request queues (K. Nichols
// and V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012; B. Maurer, "Fail at
// Scale", ACM Queue 13(8), 2015), with two differences: a queue that becomes shorter is a
// burst and not an overload, so it keeps all its requests; and as many requests as there
// are slots are kept however long they wait, so that slow containers do not run idle.
//
// A container with 20 slots and three times the requests that it can serve, whose
// clients disconnect after 5 s:
//
//	time of a request  queue capacity  wait at capacity  standing queue  wait
//	20 ms              200             0.2 s             200             0.2 s
//	200 ms             200             2 s               50              0.5 s
//	1 s                200             10 s: none of the clients gets its response in time
//	                                                     20              1 s
//	5 s                200             50 s, the same    20              5 s
//
// The zero value is a queue that does not stand. The owner's lock guards it.
type standingQueue struct {
	standing bool
	since    int64 // when the window began
	depth    int   // at that time
	handed   int   // slots that went to queued requests since then
}

// began notes that a request is queued while no other is. The first window is not judged:
// a burst may be arriving.
func (q *standingQueue) began(now int64) { *q = standingQueue{since: now, depth: math.MaxInt} }

// advance notes that a slot goes to one of depth queued requests. The queue stands from
// the end of a window in which it has not become shorter, until it is empty.
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

// rejects reports whether the oldest of depth queued requests, which has waited for a
// time, is rejected.
func (q *standingQueue) rejects(waited int64, depth, limit int) bool {
	return q.standing && waited > standingTarget && depth > limit
}
