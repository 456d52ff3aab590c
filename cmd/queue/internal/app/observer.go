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

// observer passes the events of the request path to pkg/metrics.
type observer struct {
	counts
	uncounted [][]byte // paths, compared exactly
	status    *status  // nil: no page
	ends      *endLog
	*exporters

	notes sync.Pool
}

// uncounted marks an exchange that is not counted.
type uncounted struct{}

// note is the state of a request that is traced or logged.
type note struct {
	span *tracing.Span
	line *requestlog.Entry
}

// counts are the counters of all requests.
type counts struct {
	counting *metrics.Counting
	requests *metrics.Requests
}

func newCounts() counts {
	return counts{new(metrics.Counting), metrics.NewRequests()}
}

func newObserver(cfg *config.Config, c counts, s *status, e *exporters, ends *endLog) *observer {
	o := &observer{counts: c, status: s, exporters: e, ends: ends}
	o.notes.New = func() any { return new(note) }
	for _, path := range cfg.UncountedPaths {
		o.uncounted = append(o.uncounted, []byte(path))
	}
	return o
}

// Begin implements gate.Observer.
func (o *observer) Begin(x *gate.Record) {
	x.Context = nil
	if x.Unlimited || len(o.uncounted) > 0 && o.leavesOut(x.Target) {
		x.Context = uncounted{}
		return
	}
	o.counting.Begin(x.Arrived, x.Proxied)
	o.status.requestBegan()
	log := o.log.Load()
	if o.tracer == nil && log == nil {
		return
	}
	span := o.tracer.Start(x.Trace)
	line := log.Begin(x)
	if span == nil && line == nil {
		return
	}
	n := o.notes.Get().(*note)
	*n = note{span, line}
	x.Context = n
	x.TraceLines = span.Lines()
}

// End implements gate.Observer.
func (o *observer) End(x *gate.Record) {
	var trace gate.TraceID
	switch c := x.Context.(type) {
	case uncounted:
		return
	case *note:
		trace = c.span.TraceID()
		o.finish(c, x)
	}
	o.counting.End(x.Ended, x.Proxied)
	o.requests.Observe(x, trace)
	o.status.requestEnded(x)
	o.ends.note(x)
}

// finish handles traced and logged requests.
func (o *observer) finish(n *note, x *gate.Record) {
	trace := n.span.TraceID()
	if n.span == nil {
		trace = x.Trace.Context().TraceID
	} else {
		n.span.End(x)
	}
	n.line.End(result(x, trace))
	*n = note{}
	o.notes.Put(n)
}

// wall converts a time on the monotonic clock of the event loops to wall-clock time. For
// 0 it returns the zero value of time.Time.
func wall(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return loop.TimeOf(int64(at))
}

// Rejected implements gate.Observer.
func (o *observer) Rejected(outcome gate.Outcome) {
	o.requests.Rejected(outcome)
	o.status.rejected(outcome)
}

// Probed implements gate.Observer.
func (o *observer) Probed(x *gate.Record) {
	if log := o.probeLog.Load(); log != nil {
		log.Begin(x).End(result(x, x.Trace.Context().TraceID))
	}
}

func (o *observer) leavesOut(target []byte) bool {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return slices.ContainsFunc(o.uncounted, func(p []byte) bool { return bytes.Equal(p, path) })
}

// result returns the fields of the request log that are known only when the request has
// ended.
func result(x *gate.Record, trace gate.TraceID) requestlog.Result {
	return requestlog.Result{
		Status: x.Status, Outcome: x.Outcome.String(),
		RequestBytes: x.RequestBody, ResponseBytes: x.ResponseBody,
		Ended:  wall(x.Ended),
		Queued: x.QueueWait(), Upstream: x.UpstreamTime(), Total: x.Took(), TraceID: trace,
	}
}
