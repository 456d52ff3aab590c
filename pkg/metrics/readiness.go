package metrics

import (
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Transition is a possible change of a container's state.
type Transition struct {
	State string // the new state
	Cause string // fixed word for the failure of a check; empty if no check failed
}

// otherTransition has the label values of the series for all transitions that are not in
// ReadinessConfig.Transitions.
var otherTransition = Transition{State: "other", Cause: "other"}

// ReadinessConfig configures Readiness. The lists limit the number of series:
// transitions that are not listed are counted in one common series.
type ReadinessConfig struct {
	Containers  []string // distinct names, in the order of the container indexes
	States      []string
	Transitions []Transition
	// Snapshot returns the containers in the same order as Containers.
	Snapshot func() []gate.ContainerState
}

// Readiness counts checks and changes of state of the containers. Its methods may be
// called concurrently.
type Readiness struct {
	cfg ReadinessConfig
	// transitions[i][k] counts the changes of container i that are cfg.Transitions[k].
	// The last element of transitions[i] counts all other changes of container i.
	transitions [][]atomic.Uint64
	probes      []*histogram
}

// NewReadiness returns a Readiness in which all series are 0.
func NewReadiness(cfg ReadinessConfig) *Readiness {
	r := &Readiness{cfg: cfg}
	for range cfg.Containers {
		r.transitions = append(r.transitions, make([]atomic.Uint64, len(cfg.Transitions)+1))
		r.probes = append(r.probes, newHistogram(durations))
	}
	return r
}

// containers returns the snapshot without unnamed containers.
func (r *Readiness) containers() []gate.ContainerState {
	if r.cfg.Snapshot == nil {
		return nil
	}
	all := r.cfg.Snapshot()
	return all[:min(len(all), len(r.cfg.Containers))]
}

// Changed counts a change of state of the container with this index.
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

// Probed counts a completed check of the container with this index.
func (r *Readiness) Probed(container int, took time.Duration) {
	if container >= 0 && container < len(r.probes) {
		r.probes[container].observe(int64(took))
	}
}
