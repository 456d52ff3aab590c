package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// IdleAge estimates the idle timeout of the container. The age of a connection is the
// time for which it has been idle. A request that must not be retried does not use a
// connection whose age has reached a limit, because the container could close the
// connection while the request is being sent.
//
// The limit is the lowest age at which the container has closed a connection, minus a
// margin. This close may have had another reason than the idle timeout, or the timeout
// may have changed since. IdleAge assumes so if another connection stays open until a
// much higher age. The limit then rises to that age, and the next close sets it again.
//
// The zero value trusts every connection. Methods may be called from any goroutine.
type IdleAge struct {
	// limit is the limit of the age in ns, plus 1; 0 = there is no limit. The 1 is added
	// because the limit of the age may itself be 0.
	limit atomic.Int64
	// closeAge is the age in ns at which the container closed the connection from which
	// limit was derived.
	closeAge atomic.Int64
}

// Bounds of the margin by which RetireAge reduces an age. The margin allows for
// inaccurate timers and for the time that a request takes to reach the container.
const (
	minIdleMargin = time.Millisecond
	maxIdleMargin = 250 * time.Millisecond
)

// RetireAge returns the age at which to stop using a connection for requests. The
// parameter age is the age at which the container will close the connection.
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

// contradicts reports whether age is so far above closeAge that closeAge cannot be the
// idle timeout. The required difference is large, because timers are late on a machine
// that stalls.
func (a *IdleAge) contradicts(age time.Duration) bool {
	return age > 4*time.Duration(a.closeAge.Load())+50*time.Millisecond
}

// Trusts reports whether a connection that has been idle for age will probably stay open
// until a request reaches the container.
func (a *IdleAge) Trusts(age time.Duration) bool {
	limit := a.limit.Load()
	return limit == 0 || int64(age)+1 < limit
}
