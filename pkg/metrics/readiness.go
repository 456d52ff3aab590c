package metrics

import (
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Transition is a change of a container's state that can happen.
type Transition struct {
	State string // that it came to
	Cause string // short fixed word; empty for a success
}

// otherTransition is shown of those that were not foreseen.
var otherTransition = Transition{State: "other", Cause: "other"}

// ReadinessConfig names what Readiness counts. The lists bound the labels: all
// that is not listed is counted under one series.
type ReadinessConfig struct {
	Containers  []string // distinct names, in the order of their index
	States      []string
	Transitions []Transition
	// Snapshot returns the containers, in the same order.
	Snapshot func() []gate.ContainerState
}

// Readiness counts probes and changes of state of the containers. Its methods
// may be called from several goroutines at once.
type Readiness struct {
	cfg         ReadinessConfig
	transitions [][]atomic.Uint64 // by container, then as cfg.Transitions and one more
	probes      []*histogram
}

// NewReadiness has all its series from the beginning.
func NewReadiness(cfg ReadinessConfig) *Readiness {
	r := &Readiness{cfg: cfg}
	for range cfg.Containers {
		r.transitions = append(r.transitions, make([]atomic.Uint64, len(cfg.Transitions)+1))
		r.probes = append(r.probes, newHistogram(durations))
	}
	return r
}

// containers are those of the snapshot that have a name.
func (r *Readiness) containers() []gate.ContainerState {
	if r.cfg.Snapshot == nil {
		return nil
	}
	all := r.cfg.Snapshot()
	return all[:min(len(all), len(r.cfg.Containers))]
}

// Changed counts a change of state of a container by index.
func (r *Readiness) Changed(container int, to Transition) {
	if container < 0 || container >= len(r.transitions) {
		return
	}
	i := 0
	for i < len(r.cfg.Transitions) && r.cfg.Transitions[i] != to {
		i++
	}
	r.transitions[container][i].Inc()
}

// Probed counts a probe of a container by index that has ended, whatever its
// result.
func (r *Readiness) Probed(container int, took time.Duration) {
	if container >= 0 && container < len(r.probes) {
		r.probes[container].observe(int64(took))
	}
}
