package metrics

import (
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Transition is a possible change of a container's state.
type Transition struct {
	State string // the new state
	Cause string // fixed word; empty for a success
}

// otherTransition stands for transitions that are not configured.
var otherTransition = Transition{State: "other", Cause: "other"}

// ReadinessConfig configures Readiness. The lists bound the label values: unlisted ones
// are counted in one series.
type ReadinessConfig struct {
	Containers  []string // distinct names, by index
	States      []string
	Transitions []Transition
	// Snapshot returns the containers in the same order.
	Snapshot func() []gate.ContainerState
}

// Readiness counts checks and changes of state of the containers. Its methods may be
// called concurrently.
type Readiness struct {
	cfg         ReadinessConfig
	transitions [][]atomic.Uint64 // by container, then by index in cfg.Transitions, with one more for others
	probes      []*histogram
}

// NewReadiness returns a Readiness with all its series at zero.
func NewReadiness(cfg ReadinessConfig) *Readiness {
	r := &Readiness{cfg: cfg}
	for range cfg.Containers {
		r.transitions = append(r.transitions, make([]atomic.Uint64, len(cfg.Transitions)+1))
		r.probes = append(r.probes, newHistogram(durations))
	}
	return r
}

// containers returns the containers of the snapshot that have a name.
func (r *Readiness) containers() []gate.ContainerState {
	if r.cfg.Snapshot == nil {
		return nil
	}
	all := r.cfg.Snapshot()
	return all[:min(len(all), len(r.cfg.Containers))]
}

// Changed counts a change of state of a container, given by index.
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

// Probed counts a completed check of a container, given by index.
func (r *Readiness) Probed(container int, took time.Duration) {
	if container >= 0 && container < len(r.probes) {
		r.probes[container].observe(int64(took))
	}
}
