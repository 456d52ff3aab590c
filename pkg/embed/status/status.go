// Package status provides the gate's status page for programs that embed the gate: load
// and latency of the last five minutes, the last failures and the configuration, live.
// It is a separate package so that only programs that use it contain its files.
package status

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
)

// Page is an http.Handler for a listener on 127.0.0.1: each client that can connect
// sees everything; host names other than those of loopback get 421. Close it before
// http.Server.Shutdown, which waits for its streams.
type Page = statuspage.Page

// New returns the page of g, without earlier requests. Create at most one page for a
// gate.
func New(g *embed.Gate) *Page {
	core, observed := g.Core(), g.Observed()
	failures := statuspage.NewErrors()
	history := statuspage.NewHistory(statuspage.Sources{
		Clock: observed.Clock, Counting: observed.Counting, Requests: observed.Requests,
		Errors: failures, Admission: core.Admission.Stats,
	})
	page := statuspage.New(statuspage.Config{
		Facts:    facts(g),
		History:  history,
		Timeline: statuspage.NewTimeline(nil, observed.Clock),
		Drain: func() statuspage.Drain {
			return statuspage.Drain{Active: core.Drain.Active(), Requests: core.Drain.Requests(), Tunnels: core.Drain.Tunnels()}
		},
	})
	g.Watch(&embed.Watcher{Begun: history.Touch, Ended: func(x *gate.Record) {
		history.Touch()
		failures.Add(x)
	}})
	return page
}

func facts(g *embed.Gate) statuspage.Facts {
	c, observed := g.Core().Config, g.Observed()
	id, build := observed.Identity, observed.Build
	settings := statuspage.Group{Title: "embed.Config"}
	add := func(name, value string, unset bool, empty string) {
		s := statuspage.Setting{Name: name, Value: value, Source: "program"}
		if unset {
			s.Value, s.Empty, s.Source = "", empty, "default"
		}
		settings.Settings = append(settings.Settings, s)
	}
	add("ConcurrencyLimit", strconv.Itoa(c.ConcurrencyLimit), c.ConcurrencyLimit == 0, "unlimited")
	add("QueueCapacity", strconv.Itoa(c.QueueCapacity), c.QueueCapacity == 0, "no request waits")
	for _, d := range []struct {
		name  string
		value time.Duration
		empty string
	}{
		{"QueueMaxWait", c.QueueMaxWait, "no bound"}, {"RequestTimeout", c.RequestTimeout, "no bound"},
		{"DrainQuiet", c.DrainQuiet, "until nothing is open"},
	} {
		add(d.name, d.value.String(), d.value == 0, d.empty)
	}
	return statuspage.Facts{
		Version: build.Version, Commit: build.Commit, GoVersion: build.GoVersion,
		Namespace: id.Namespace, Service: id.Service, Revision: id.Revision, Pod: id.Pod,
		Settings: []statuspage.Group{settings},
	}
}
