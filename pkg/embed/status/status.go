// Package status provides the gate's status page for programs that embed the gate. The
// page shows the load and the latency of the last five minutes, the last failures and the
// configuration. It updates itself while it is open.
package status

import (
	"fmt"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
)

// Page is an http.Handler. Serve it only on 127.0.0.1, because each client that can
// connect sees everything. A Host that is not a loopback name gets 421. Close the Page
// before http.Server.Shutdown, which would wait for its streams.
type Page = statuspage.Page

// New returns the page of g. The page does not show requests before New. Create at most
// one page for a gate.
func New(g *embed.Gate) *Page {
	state := (*core.Gate)(g).State()
	drain := state.Gate.Drain
	failures := statuspage.NewErrors()
	history := statuspage.NewHistory(statuspage.Sources{
		Clock: state.Now, Counting: &state.Counting, Requests: state.Requests,
		Errors: failures, Admission: state.Gate.Admission.Stats,
	})
	page := statuspage.New(statuspage.Config{
		Facts:    facts(state),
		History:  history,
		Timeline: statuspage.NewTimeline(nil, state.Now),
		Drain: func() statuspage.Drain {
			return statuspage.Drain{Active: drain.Active(), Requests: drain.Requests(), Tunnels: drain.Tunnels()}
		},
	})
	state.Watch(&core.Watcher{RequestBegan: history.Touch, RequestEnded: func(x *gate.Record) {
		history.Touch()
		failures.Add(x)
	}})
	return page
}

func facts(s *core.State) statuspage.Facts {
	c, id, build := s.Gate.Config, s.Identity, core.Build()
	settings := statuspage.Group{Title: "embed.Config"}
	add := func(name, value string, unset bool, empty string) {
		row := statuspage.Setting{Name: name, Value: value, Source: "program"}
		if unset {
			row.Value, row.Empty, row.Source = "", empty, "default"
		}
		settings.Settings = append(settings.Settings, row)
	}
	overload := &c.Overload
	if auto := overload.AutoLimit; auto != nil {
		add("Concurrency", fmt.Sprintf("auto:%d-%d", auto.Min, auto.Max), false, "")
	} else {
		add("ConcurrencyLimit", strconv.Itoa(c.ConcurrencyLimit), c.ConcurrencyLimit == 0, "unlimited")
	}
	if overload.QueuePerSlot > 0 {
		add("QueueCapacity", "", true, fmt.Sprintf("%d x the limit", overload.QueuePerSlot))
	} else {
		add("QueueCapacity", strconv.Itoa(c.QueueCapacity), c.QueueCapacity == 0, "no request waits")
	}
	for name, by := range []exchange.Selector{overload.FairBy, overload.PriorityBy, overload.DeadlineBy} {
		add([]string{"QueueFairBy", "QueuePriorityBy", "QueueDeadlineBy"}[name], by.String(), !by.Set(), "off")
	}
	add("QueueRetryAfter", "measured", !overload.MeasuredRetry, "1")
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
