package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// IdleAge learns for how long the user container leaves idle connections open,
// from the ages at which it closes them. A request that must not be sent twice
// does without a connection that is about to reach that age: the container's
// close and the request would pass each other on the way.
//
// The shortest age at which a connection ended counts, less a margin. It is
// given up when a connection is seen alive at an age well beyond it: the
// container then had closed the other one for another reason, or has changed
// its mind. From there on connections are trusted up to the greatest age at
// which one was seen alive, until the next close.
//
// The zero value knows nothing and trusts every connection. Methods may be
// called from several goroutines; each costs a load when there is no news.
type IdleAge struct {
	limit    atomic.Int64 // ns plus one: from it on no connection is trusted; 0 = no limit
	closeAge atomic.Int64 // ns: the close on which limit rests
}

// Bounds of the margin before the age at which connections end: the clocks of
// both sides, and a request's way to the container.
const (
	minIdleMargin = time.Millisecond
	maxIdleMargin = 250 * time.Millisecond
)

// RetireAge is the age at which a connection that ends at age is not to be used
// any more.
func RetireAge(age time.Duration) time.Duration {
	return max(0, age-min(max(age/8, minIdleMargin), maxIdleMargin))
}

// NoteClose notes that the container has closed a connection that had been idle
// for age.
func (a *IdleAge) NoteClose(age time.Duration) {
	limit := a.limit.Load()
	if retire := int64(RetireAge(age)) + 1; limit == 0 || retire < limit || a.contradicts(age) {
		a.closeAge.Store(int64(age))
		a.limit.Store(retire)
	}
}

// NoteAlive notes that a connection that has been idle for age is still open.
func (a *IdleAge) NoteAlive(age time.Duration) {
	if !a.Trusts(age) && a.contradicts(age) {
		a.limit.Store(int64(age) + 2)
	}
}

// contradicts reports whether age is too far beyond that of the close on which the
// limit rests for the two to come from one timeout, even on a machine that
// stalls now and then.
func (a *IdleAge) contradicts(age time.Duration) bool {
	return age > 4*time.Duration(a.closeAge.Load())+50*time.Millisecond
}

// Trusts reports whether a connection that has been idle for age will be there
// for as long as a request needs to reach the container.
func (a *IdleAge) Trusts(age time.Duration) bool {
	limit := a.limit.Load()
	return limit == 0 || int64(age)+1 < limit
}
