package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/probe"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// readiness connects pkg/probe and the request path: both observe whether the container
// listens.
type readiness struct {
	probes    *probe.Readiness
	log       *zap.Logger
	figures   *metrics.Readiness
	idle      *Idle // nil = the application is never suspended
	isBrief   bool  // log lines about changes have no fields
	draining  func() bool
	status    *status // nil = no page
	cpus      *processors
	listening []func()                   // called when the container accepts connections
	probed    []func(took time.Duration) // called after each probe
	stop      func()                     // ends probing
	wait      sync.WaitGroup

	upstreamWait time.Duration
	late         *time.Timer // calls warnNotListening
}

func newReadiness(cfg *config.Config, specs []probe.Spec, s *status, log *zap.Logger) *readiness {
	wait := cfg.ReadinessWait
	if wait == 0 {
		wait = -1 // no wait; in probe.Options, 0 means the default of 10 s
	}
	r := &readiness{log: log, status: s, cpus: newProcessors(), stop: func() {}, upstreamWait: cfg.Gate.UpstreamWait}
	r.probes = probe.New(probe.Options{
		Specs:     specs,
		UserPort:  cfg.UserPort,
		Wait:      wait,
		Freshness: cfg.ReadinessFreshness,
		OnChange:  r.changed,
		OnCheck:   r.onProbe,
		NewAlarm:  probe.NewKernelAlarm,
	})
	r.figures = metrics.NewReadiness(r.figuresConfig(specs, cfg.IdleStop > 0))
	return r
}

// figuresConfig lists all label values of the readiness metrics. The states include
// Asleep only if the parameter sleeps is true.
func (r *readiness) figuresConfig(specs []probe.Spec, sleeps bool) metrics.ReadinessConfig {
	c := metrics.ReadinessConfig{Snapshot: r.probes.Snapshot}
	for _, spec := range specs {
		c.Containers = append(c.Containers, spec.Container)
	}
	states := probe.States()
	if sleeps {
		states = append(states, probe.Asleep)
	}
	for _, state := range states {
		c.States = append(c.States, state.String())
		for _, word := range check.CauseWords() {
			if (word == "") == (state == probe.Ready || state == probe.Asleep) && (word == "refused") == (state == probe.Down) && state != probe.Unknown {
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

// notify registers functions that are called when the container begins to accept
// connections. Call notify before start.
func (r *readiness) notify(listening ...func()) { r.listening = append(r.listening, listening...) }

// notifyProbed registers a function that is called after each probe, with the duration
// of the probe. Call notifyProbed before start.
func (r *readiness) notifyProbed(probed func(took time.Duration)) {
	r.probed = append(r.probed, probed)
}

// start starts probing. The container initially counts as not listening.
func (r *readiness) start() {
	r.cpus.listening(false)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.wait.Go(func() { r.probes.Run(ctx) })
	if r.upstreamWait > 0 {
		r.late = time.AfterFunc(r.upstreamWait, r.warnNotListening)
	}
}

// warnNotListening names each container that has not accepted a connection since the
// start. From now on, requests that have waited for such a container get 503.
func (r *readiness) warnNotListening() {
	for _, c := range r.probes.Snapshot() {
		if c.State == probe.Down.String() && c.Reached == 0 && !r.draining() {
			r.log.Warn(fmt.Sprintf("%s has not listened for %s (UPSTREAM_WAIT) since the gate started: requests get 503 until it listens",
				c.Container, r.upstreamWait), zap.String("check", c.Probe))
		}
	}
}

func (r *readiness) close() {
	if r.late != nil {
		r.late.Stop()
	}
	r.stop()
	r.wait.Wait()
}

// changed logs a change of state that is not Quiet. The message is a warning if a ready
// container is no longer ready, except if it is asleep or the gate drains. changed also
// wakes the connect queue when a container begins to listen.
func (r *readiness) changed(c probe.Change) {
	if c.To != probe.Down && c.To != probe.Asleep && (c.From == probe.Down || c.From == probe.Unknown) {
		for _, listening := range r.listening {
			listening()
		}
	}
	r.figures.Changed(c.Index, metrics.Transition{State: c.To.String(), Cause: c.Cause.Kind.Word()})
	r.status.changed(c)
	if c.Quiet {
		return
	}
	level := zap.InfoLevel
	if c.From == probe.Ready && c.To != probe.Asleep && !r.draining() {
		level = zap.WarnLevel
	}
	if r.isBrief {
		r.log.Log(level, c.String())
		return
	}
	r.log.Log(level, c.String(), zap.String("container", c.Container), zap.String("from", c.From.String()),
		zap.String("to", c.To.String()), zap.String("cause", c.Cause.Token()), zap.Uint64("attempts", c.Attempts))
}

// Listening is called when the container accepts or refuses a connection on the request
// path. It uses a new goroutine, because logging could block the event loop.
func (r *readiness) Listening(yes bool) {
	go func() {
		r.cpus.listening(yes)
		if yes && r.idle != nil {
			r.idle.listening()
		}
		r.probes.Observed(yes)
	}()
}
