package app

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// observer hands what the request path tells to pkg/metrics.
type observer struct {
	counting  *metrics.Counting
	requests  *metrics.Requests
	uncounted [][]byte // paths, exactly
	status    *status  // nil: there is no page
	ends      *endLog
	sinks

	notes sync.Pool
}

// uncounted marks an exchange that is left out. A byte in an interface costs
// no allocation.
const uncounted = metrics.RouteTag(255)

// note is what is kept of a request that is traced or logged; of all others
// the route tag alone.
type note struct {
	tag  metrics.RouteTag
	span *tracing.Span
	line *requestlog.Entry
}

func newObserver(cfg *config.Config) *observer {
	outcomes := gate.Outcomes()
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = o.String()
	}
	o := &observer{counting: new(metrics.Counting), requests: metrics.NewRequests(names)}
	o.notes.New = func() any { return new(note) }
	for _, path := range cfg.UncountedPaths {
		o.uncounted = append(o.uncounted, []byte(path))
	}
	return o
}

// Begin is called by the engines.
func (o *observer) Begin(x *gate.Exchange) {
	if len(o.uncounted) > 0 && o.leavesOut(x.Target) {
		x.Context = uncounted
		return
	}
	tag := o.requests.Tag(x.RouteTag, x.DefaultRoute, x.HasDefaultRoute)
	x.Context = tag
	o.counting.Begin(x.Arrived, x.Proxied)
	o.status.begun()
	if o.tracer == nil && o.log == nil {
		return
	}
	span := o.tracer.Start(x.Trace)
	line := o.log.Begin(head(x))
	if span == nil && line == nil {
		return
	}
	n := o.notes.Get().(*note)
	*n = note{tag, span, line}
	x.Context = n
	x.TraceLines = span.Lines()
}

// End is called by the engines.
func (o *observer) End(x *gate.Exchange) {
	var n *note
	var tag metrics.RouteTag
	switch c := x.Context.(type) {
	case metrics.RouteTag:
		tag = c
	case *note:
		n, tag = c, c.tag
	}
	if tag == uncounted {
		return
	}
	o.counting.End(x.Ended, x.Proxied)
	r := record(x, tag)
	if n != nil {
		r.TraceID = n.span.TraceID()
		o.finish(n, x, &r)
	}
	o.requests.Observe(&r)
	o.status.ended(x)
	o.ends.note(x)
}

// record is what is counted of x.
func record(x *gate.Exchange, tag metrics.RouteTag) metrics.Record {
	r := metrics.Record{
		Status:        x.Status,
		Outcome:       uint8(x.Outcome),
		Route:         tag,
		Proxied:       x.Proxied,
		Reached:       x.Forwarded != 0,
		Queued:        x.Ended - x.Arrived,
		Total:         x.Ended - x.Arrived,
		RequestBytes:  x.RequestBody,
		ResponseBytes: x.ResponseBody,
	}
	if x.Admitted != 0 {
		r.Queued = x.Admitted - x.Arrived
	}
	if r.Reached {
		r.Upstream = x.Ended - x.Forwarded
	}
	return r
}

// finish hands on what only traced and logged requests have.
func (o *observer) finish(n *note, x *gate.Exchange, r *metrics.Record) {
	if n.span != nil {
		n.span.End(&tracing.Finish{
			Method: x.Method, Target: x.Target, Host: x.Host, Protocol: x.Protocol, Peer: x.Peer,
			Status: x.Status, Outcome: x.Outcome.String(), Error: x.Outcome.Meaning().Level >= gate.Warn,
			Arrived: wall(x.Arrived), Ended: wall(x.Ended), Admitted: wall(x.Admitted),
			Forwarded: wall(x.Forwarded), Answered: wall(x.Answered),
		})
	}
	if n.line != nil {
		trace := r.TraceID
		if n.span == nil {
			trace = x.Trace.Context().TraceID
		}
		n.line.End(result(x, r, trace))
	}
	*n = note{}
	o.notes.Put(n)
}

// wall converts an instant of the engines' clock; 0 stays the zero time.
func wall(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return loop.TimeOf(int64(at))
}

// Rejected is called by the engines.
func (o *observer) Rejected(outcome gate.Outcome) {
	o.requests.Rejected(uint8(outcome))
	o.status.rejected(outcome)
}

// Probed is called by the engines.
func (o *observer) Probed(x *gate.Exchange) {
	if o.log != nil && o.logProbes {
		r := record(x, 0)
		o.log.Begin(head(x)).End(result(x, &r, x.Trace.Context().TraceID))
	}
}

func (o *observer) leavesOut(target []byte) bool {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return slices.ContainsFunc(o.uncounted, func(p []byte) bool { return bytes.Equal(p, path) })
}
