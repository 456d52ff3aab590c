package embed

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a given time. Unlike a context of the standard
// library, it has no timer until one is needed. When a caller first calls Done, or calls
// Err after the end, the deadline creates a context of the standard library, which has a
// timer.
type deadline struct {
	parent context.Context // nil = no deadline
	at     time.Time

	mu      sync.Mutex
	timed   context.Context // the context with a timer; nil until it is needed
	cancel  context.CancelFunc
	stopped bool
}

func (d *deadline) begin(parent context.Context, at time.Time) { d.parent, d.at = parent, at }

// set reports whether there is a deadline.
func (d *deadline) set() bool { return d.parent != nil }

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.parent.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.context().Done() }

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	idle := d.timed == nil && !d.stopped
	d.mu.Unlock()
	if idle && d.parent.Err() == nil && time.Now().Before(d.at) {
		return nil
	}
	return d.context().Err()
}

// Value implements context.Context.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return d.parent.Value(key)
}

func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.stopped {
			d.cancel()
		}
	}
	return d.timed
}

// stop ends the context and its timer.
func (d *deadline) stop() {
	if d.parent == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.cancel != nil {
		d.cancel()
	}
}

// expired reports whether the context has ended because of a deadline. This is either the
// deadline d or an earlier deadline of the parent.
func (d *deadline) expired() bool { return d.set() && d.Err() == context.DeadlineExceeded }
