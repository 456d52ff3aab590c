package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// IdleAge estimates the idle timeout of the user container from the ages at which it
// closes idle connections. A request that must not be retried does not use a connection
// near that age, because the request could cross the container's FIN.
//
// The limit is the lowest age of a closed connection, minus a margin. A connection that
// is still open at a much higher age shows that the close had another reason or that the
// timeout has changed. That age then becomes the limit until the next close.
//
// The zero value trusts every connection. Methods may be called from any goroutine.
type IdleAge struct {
	limit    atomic.Int64 // age in ns, plus 1, from which Trusts returns false; 0 = no limit
	closeAge atomic.Int64 // age in ns of the close from which limit was derived
}

// Bounds of the margin between the limit and the close. The margin covers inaccurate
// timers and the time until a request reaches the container.
const (
	minIdleMargin = time.Millisecond
	maxIdleMargin = 250 * time.Millisecond
)

// RetireAge returns the age from which not to use a connection that will be closed at the
// given age.
func RetireAge(age time.Duration) time.Duration {
	return max(0, age-min(max(age/8, minIdleMargin), maxIdleMargin))
}

// NoteClose records that the container closed a connection that had been idle for age.
func (a *IdleAge) NoteClose(age time.Duration) {
	limit := a.limit.Load()
	if retire := int64(RetireAge(age)) + 1; limit == 0 || retire < limit || a.contradicts(age) {
		a.closeAge.Store(int64(age))
		a.limit.Store(retire)
	}
}

// NoteAlive records that a connection is still open after it has been idle for age.
func (a *IdleAge) NoteAlive(age time.Duration) {
	if !a.Trusts(age) && a.contradicts(age) {
		a.limit.Store(int64(age) + 2)
	}
}

// contradicts reports whether age is too far above closeAge to result from the same
// timeout, even on a machine that stalls.
func (a *IdleAge) contradicts(age time.Duration) bool {
	return age > 4*time.Duration(a.closeAge.Load())+50*time.Millisecond
}

// Trusts reports whether a connection that has been idle for age will probably stay open
// until a request reaches the container.
func (a *IdleAge) Trusts(age time.Duration) bool {
	limit := a.limit.Load()
	return limit == 0 || int64(age)+1 < limit
}
