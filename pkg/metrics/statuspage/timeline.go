package statuspage

import (
	"math"
	"slices"
	"sync"
	"time"
)

// maxChanges is the number of changes of state kept for each container.
const maxChanges = 48

// Change is a change of state of a container.
type Change struct {
	From, To string
	Cause    string // reason for To; empty only if To is ready
	Attempts uint64 // number of checks in the state From
}

// Timeline keeps the last changes of state of each container. Its methods may be called
// concurrently. On a nil Timeline, Changed does nothing.
type Timeline struct {
	names []string
	clock func() time.Duration

	mu      sync.Mutex
	total   uint64
	changes [][]changeJSON // by container, oldest first
	ready   []bool         // by container: has been ready at least once
}

// NewTimeline returns a Timeline of containers, which are identified by their index.
func NewTimeline(containers []string, clock func() time.Duration) *Timeline {
	n := len(containers)
	return &Timeline{names: containers, clock: clock, changes: make([][]changeJSON, n), ready: make([]bool, n)}
}

// Changed records a change of the container with this index.
func (t *Timeline) Changed(container int, c Change) {
	if t == nil || container < 0 || container >= len(t.names) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total++
	t.ready[container] = t.ready[container] || c.Cause == ""
	changes := t.changes[container]
	if len(changes) == maxChanges {
		copy(changes, changes[1:])
		changes = changes[:maxChanges-1]
	}
	t.changes[container] = append(changes, changeJSON{
		At: millis(t.clock()), From: c.From, To: c.To, Cause: c.Cause, Attempts: c.Attempts,
	})
}

// wasReady reports whether each container has been ready at least once.
func (t *Timeline) wasReady() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.Contains(t.ready, false)
}

// readySince returns when the last container became ready, in ms.
func (t *Timeline) readySince() (since int64) {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, changes := range t.changes {
		if n := len(changes); n > 0 {
			since = max(since, changes[n-1].At)
		}
	}
	return since
}

// notReadySince returns the time, in ms, since which at least one container has not been
// ready. This is the earliest result of unreadySince for the containers that are not
// ready now. 0 = since the start of the gate.
func (t *Timeline) notReadySince(containers []containerJSON) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := int64(math.MaxInt64)
	for i := range containers {
		if !containers[i].Ready {
			since = min(since, unreadySince(t.changes[i]))
		}
	}
	return since
}

// unreadySince returns the time, in ms, at which a container stopped being ready. This is
// the time of its first change of state after its last change to ready. If the kept
// changes include no change to ready, the result is the time of the oldest of them. The
// result is 0 if the container is ready, or has no kept changes.
func unreadySince(changes []changeJSON) (since int64) {
	for i := len(changes) - 1; i >= 0 && changes[i].Cause != ""; i-- {
		since = changes[i].At
	}
	return since
}

// version changes with every change.
func (t *Timeline) version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// changesOf returns a copy of a container's changes.
func (t *Timeline) changesOf(container int) []changeJSON {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]changeJSON{}, t.changes[container]...)
}
