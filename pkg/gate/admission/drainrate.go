package admission

import (
	"time"

	"go.uber.org/atomic"
)

const (
	// rateWindow is the minimum time over which the rate is measured.
	rateWindow = int64(250 * time.Millisecond)
	// maxRetryAfter is the highest Retry-After sent to a client, in seconds.
	maxRetryAfter = 60
)

// drainRate measures how fast the queue drains.
type drainRate struct {
	granted        atomic.Uint64 // slots granted from the queue
	startedAt      atomic.Int64  // start of the measurement
	grantedAtStart atomic.Uint64 // value of granted at the start of the measurement
	interval       atomic.Int64  // ns between two grants from the queue; 0 = not known
}

// RetryAfter estimates how long a request queued at now will wait at the recent drain
// rate. The result is in whole seconds, from 1 to 60; now is in ns.
func (a *Controller) RetryAfter(now int64) int {
	a.drain.update(now)
	wait := a.drain.interval.Load() * int64(a.QueueDepth())
	return int(min(max((wait+int64(time.Second)-1)/int64(time.Second), 1), maxRetryAfter))
}

// update measures the rate if rateWindow has passed since the last measurement.
func (d *drainRate) update(now int64) {
	startedAt, handed := d.startedAt.Load(), d.granted.Load()
	if startedAt == 0 { // first call: no rate yet
		d.grantedAtStart.Store(handed)
		d.startedAt.CompareAndSwap(0, now)
		return
	}
	elapsed := now - startedAt
	slots := int64(handed - d.grantedAtStart.Load())
	if elapsed < rateWindow || slots == 0 && d.interval.Load() > elapsed || !d.startedAt.CompareAndSwap(startedAt, now) {
		return
	}
	d.grantedAtStart.Store(handed)
	if slots == 0 { // no slot was granted, so the interval is at least the elapsed time
		d.startedAt.Store(startedAt)
		d.interval.Store(elapsed)
		return
	}
	per := elapsed / slots
	if old := d.interval.Load(); old > 0 {
		per = (old + per) / 2
	}
	d.interval.Store(per)
}
