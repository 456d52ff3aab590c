package app

import (
	"net"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
	"github.com/queuegate/queuegate/pkg/probe"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// statusAddress is the only address of the status page.
var statusAddress = net.IPv4(127, 0, 0, 1).String()

// status provides data to the status page. It is nil if the page is off, and its
// methods then do nothing.
type status struct {
	history  *statuspage.History
	errors   *statuspage.Errors
	timeline *statuspage.Timeline
}

func newStatus(cfg *config.Config, specs []probe.Spec, admission *admission.Controller, c counts) *status {
	if cfg.StatusPort == 0 {
		return nil
	}
	var containers []string
	for _, spec := range specs {
		containers = append(containers, spec.Container)
	}
	s := &status{
		errors:   statuspage.NewErrors(),
		timeline: statuspage.NewTimeline(containers, server.Clock),
	}
	s.history = statuspage.NewHistory(statuspage.Sources{
		Clock: server.Clock, Counting: c.counting, Requests: c.requests, Errors: s.errors,
		Admission: admission.Stats,
	})
	return s
}

// requestBegan is called after a request was counted.
func (s *status) requestBegan() {
	if s != nil {
		s.history.Touch()
	}
}

// requestEnded is called after the end of a request was counted.
func (s *status) requestEnded(x *gate.Record) {
	if s == nil {
		return
	}
	s.history.Touch()
	s.errors.Add(x)
}

// rejected is called for a request that was rejected before its head was complete.
func (s *status) rejected(outcome gate.Outcome) {
	if s != nil {
		s.history.Touch()
		now := server.Clock()
		s.errors.Add(&gate.Record{Outcome: outcome, Status: outcome.Meaning().Status, Arrived: now, Ended: now})
	}
}

func (s *status) changed(c probe.Change) {
	if s == nil {
		return
	}
	change := statuspage.Change{From: c.From.String(), To: c.To.String(), Attempts: c.Attempts}
	if c.Cause.Kind != check.CauseNone {
		change.Cause = c.Cause.String()
	}
	s.timeline.Changed(c.Index, change)
}

// statusPage creates the page, which only this pod can reach.
func (a *App) statusPage() *statuspage.Page {
	id := a.cfg.Identity
	return statuspage.New(statuspage.Config{
		Facts: statuspage.Facts{
			Version: a.build.Version, Commit: a.build.Commit, GoVersion: a.build.GoVersion,
			Namespace: id.Namespace, Service: id.Service, Revision: id.Revision, Pod: id.Pod,
		},
		Live:         a.live.stats,
		Settings:     func() []statuspage.Group { return a.live.current().Shown() },
		History:      a.status.history,
		Timeline:     a.status.timeline,
		Containers:   a.readiness.probes.Snapshot,
		Upstream:     a.server.Stats,
		Drain:        a.drainFigures,
		StartTimeout: a.cfg.Gate.UpstreamWait,
	})
}

func (a *App) drainFigures() statuspage.Drain {
	d := a.gate.Drain
	return statuspage.Drain{Active: d.Active(), Requests: d.Requests(), Tunnels: d.Tunnels()}
}
