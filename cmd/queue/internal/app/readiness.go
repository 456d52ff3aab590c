package app

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/probe"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// readiness ties pkg/probe to the request path: it hands on what each of the two
// sees of the container.
type readiness struct {
	probes    *probe.Readiness
	log       *zap.Logger
	figures   *metrics.Readiness
	isBrief   bool    // lines about changes have no fields: the message says it all
	status    *status // nil: there is no page
	cpus      *processors
	listening []func()                   // called when the container accepts connections
	probed    []func(took time.Duration) // called after each probe
	stop      func()                     // ends probing
	ended     sync.WaitGroup
}

// newReadiness returns the readiness checks described by specs, one per container.
func newReadiness(cfg *config.Config, specs []probe.Spec, s *status, log *zap.Logger) *readiness {
	wait := cfg.ReadinessWait
	if wait == 0 {
		wait = -1 // in pkg/probe 0 stands for the default
	}
	r := &readiness{log: log, status: s, cpus: newProcessors(), stop: func() {}}
	r.probes = probe.New(probe.Options{
		Specs:     specs,
		UserPort:  cfg.UserPort,
		Wait:      wait,
		Freshness: cfg.ReadinessFreshness,
		OnChange:  r.changed,
		OnCheck:   r.onProbe,
		NewAlarm:  probe.NewKernelAlarm,
	})
	r.figures = metrics.NewReadiness(r.figuresConfig(specs))
	return r
}

// figuresConfig lists all label values of the readiness metrics.
func (r *readiness) figuresConfig(specs []probe.Spec) metrics.ReadinessConfig {
	c := metrics.ReadinessConfig{Snapshot: r.probes.Snapshot}
	for _, spec := range specs {
		c.Containers = append(c.Containers, spec.Container)
	}
	for _, state := range probe.States() {
		c.States = append(c.States, state.String())
		for _, word := range check.CauseWords() {
			if (word == "") == (state == probe.Ready) && (word == "refused") == (state == probe.Down) && state != probe.Unknown {
				c.Transitions = append(c.Transitions, metrics.Transition{State: state.String(), Cause: word})
			}
		}
	}
	return c
}

func (r *readiness) onProbe(index int, took time.Duration) {
	r.figures.Probed(index, took)
	for _, probed := range r.probed {
		probed(took)
	}
}

func probeSpecs(cfg *config.Config) ([]probe.Spec, error) {
	return probe.ParseSpec(cfg.ReadinessProbe, probe.SpecOptions{
		UserPort:       cfg.UserPort,
		MultiContainer: cfg.MultiContainerProbes,
		ContainerNames: cfg.ContainerNames,
	})
}

// notify adds to what is called, before start, when the container begins to
// accept connections.
func (r *readiness) notify(listening ...func()) { r.listening = append(r.listening, listening...) }

// notifyProbed adds to what is called, before start, after each probe.
func (r *readiness) notifyProbed(probed func(took time.Duration)) {
	r.probed = append(r.probed, probed)
}

// start begins to probe. Until there is a sign of it, the container does not
// listen.
func (r *readiness) start() {
	r.cpus.listening(false)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.ended.Go(func() { r.probes.Run(ctx) })
}

func (r *readiness) close() {
	r.stop()
	r.ended.Wait()
}

// changed logs one line per change of state, and lets requests that are held
// try as soon as a container listens.
func (r *readiness) changed(c probe.Change) {
	if c.To != probe.Down && (c.From == probe.Down || c.From == probe.Unknown) {
		for _, listening := range r.listening {
			listening()
		}
	}
	r.figures.Changed(c.Index, metrics.Transition{State: c.To.String(), Cause: c.Cause.Kind.Word()})
	r.status.changed(c)
	if c.Quiet {
		return
	}
	if r.isBrief {
		r.log.Info(c.String())
		return
	}
	r.log.Info(c.String(), zap.String("container", c.Container), zap.String("from", c.From.String()),
		zap.String("to", c.To.String()), zap.String("cause", c.Cause.Token()), zap.Uint64("attempts", c.Attempts))
}

// Listening hands on what the request path saw. Away from the loop: a change
// is logged, and a log can block.
func (r *readiness) Listening(yes bool) {
	go func() {
		r.cpus.listening(yes)
		r.probes.Observed(yes)
	}()
}
