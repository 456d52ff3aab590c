package statuspage

import (
	"sync"
	"time"
)

// keptChanges is how many changes of state are kept of each container.
const keptChanges = 48

// Change is a change of state of a container.
type Change struct {
	From, To string
	Cause    string // why To; empty for a success
	Attempts uint64 // probes made in From
}

// Timeline keeps the last changes of state of the containers. Its methods may
// be called from any goroutine, and Changed on a nil Timeline.
type Timeline struct {
	names []string
	clock func() time.Duration

	mu      sync.Mutex
	total   uint64
	changes [][]changeJSON // by container, oldest first
}

// NewTimeline knows containers by the index of their names.
func NewTimeline(containers []string, clock func() time.Duration) *Timeline {
	return &Timeline{names: containers, clock: clock, changes: make([][]changeJSON, len(containers))}
}

// Changed notes a change that has just happened to a container by index.
func (t *Timeline) Changed(container int, c Change) {
	if t == nil || container < 0 || container >= len(t.names) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	kept := t.changes[container]
	if len(kept) == keptChanges {
		copy(kept, kept[1:])
		kept = kept[:keptChanges-1]
	}
	t.changes[container] = append(kept, changeJSON{
		At: millis(t.clock()), From: c.From, To: c.To, Cause: c.Cause, Attempts: c.Attempts,
	})
}

// version changes with every change.
func (t *Timeline) version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// of returns a copy of the changes of a container, oldest first.
func (t *Timeline) of(container int) []changeJSON {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]changeJSON{}, t.changes[container]...)
}
