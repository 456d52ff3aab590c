package admission

import (
	"time"

	"go.uber.org/atomic"
)

const (
	// rateWindow is how long slots are counted before the rate is taken anew.
	rateWindow = int64(250 * time.Millisecond)
	// maxRetryAfter bounds what is sent to a client.
	maxRetryAfter = 60
)

// drainRate measures how fast the queue drains, at the cost of an increment for
// each slot that goes to a waiter.
type drainRate struct {
	granted        atomic.Uint64 // slots that went to waiters
	since          atomic.Int64  // when counted was taken
	grantedAtSince atomic.Uint64
	interval       atomic.Int64 // ns between two slots; 0 = not known
}

// RetryAfter is the time, in whole seconds from 1 to 60, that those who wait
// now need until they have a slot, at the rate of late: from then on a place is
// likely. now is in ns.
func (a *Controller) RetryAfter(now int64) int {
	a.drain.update(now)
	wait := a.drain.interval.Load() * int64(a.QueueDepth())
	return int(min(max((wait+int64(time.Second)-1)/int64(time.Second), 1), maxRetryAfter))
}

// update takes the rate anew, if the last time is long ago.
func (d *drainRate) update(now int64) {
	since, handed := d.since.Load(), d.granted.Load()
	if since == 0 { // nothing is known of the time before
		d.grantedAtSince.Store(handed)
		d.since.CompareAndSwap(0, now)
		return
	}
	elapsed := now - since
	slots := int64(handed - d.grantedAtSince.Load())
	if elapsed < rateWindow || slots == 0 && d.interval.Load() > elapsed || !d.since.CompareAndSwap(since, now) {
		return
	}
	d.grantedAtSince.Store(handed)
	if slots == 0 { // none in all this time: it takes longer than that
		d.since.Store(since)
		d.interval.Store(elapsed)
		return
	}
	per := elapsed / slots
	if old := d.interval.Load(); old > 0 {
		per = (old + per) / 2
	}
	d.interval.Store(per)
}
