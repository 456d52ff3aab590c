package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// IdleAge learns the idle timeout of the user container from the ages at which it
// closes idle connections. A request that must not be retried avoids a connection close
// to that age, because the container's FIN and the request could cross.
//
// The limit is the shortest age at which a connection was closed, minus a margin. It is
// dropped when a connection is still open at a much higher age: the earlier close then
// had another reason, or the container's configuration has changed. From then on
// connections are trusted up to the highest age at which one was seen open, until the
// next close.
//
// The zero value trusts every connection. Methods may be called from any goroutine;
// without a change each costs an atomic load.
type IdleAge struct {
	limit    atomic.Int64 // ns plus one: connections of this age or older are not trusted; 0 = no limit
	closeAge atomic.Int64 // ns: age at the close that set limit
}

// Bounds of the margin, which covers timer inaccuracy on both sides and the time until
// a request reaches the container.
const (
	minIdleMargin = time.Millisecond
	maxIdleMargin = 250 * time.Millisecond
)

// RetireAge returns the age from which a connection that will be closed at age should
// no longer be used.
func RetireAge(age time.Duration) time.Duration {
	return max(0, age-min(max(age/8, minIdleMargin), maxIdleMargin))
}

// NoteClose notes that the container closed a connection that had been idle for age.
func (a *IdleAge) NoteClose(age time.Duration) {
	limit := a.limit.Load()
	if retire := int64(RetireAge(age)) + 1; limit == 0 || retire < limit || a.contradicts(age) {
		a.closeAge.Store(int64(age))
		a.limit.Store(retire)
	}
}

// NoteAlive notes that a connection idle for age is still open.
func (a *IdleAge) NoteAlive(age time.Duration) {
	if !a.Trusts(age) && a.contradicts(age) {
		a.limit.Store(int64(age) + 2)
	}
}

// contradicts reports whether age exceeds closeAge by too much for both to result from
// the same timeout, even on a machine that stalls occasionally.
func (a *IdleAge) contradicts(age time.Duration) bool {
	return age > 4*time.Duration(a.closeAge.Load())+50*time.Millisecond
}

// Trusts reports whether a connection idle for age will probably stay open until a
// request has reached the container.
func (a *IdleAge) Trusts(age time.Duration) bool {
	limit := a.limit.Load()
	return limit == 0 || int64(age)+1 < limit
}
