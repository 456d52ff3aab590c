package metrics

import (
	"cmp"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Requests counts requests that have ended. Its methods may be called concurrently.
type Requests struct {
	tags      routeTags
	series    seriesTable
	outcomes  []atomic.Uint64 // by gate.Outcome
	proxied   atomic.Uint64
	queueWait *histogram

	// unforwarded has the durations of the requests that did not reach the container.
	// These durations are also in the field series.
	unforwarded *histogram

	clock func() time.Time // returns the time of an exemplar
}

// NewRequests returns a Requests. It already has the series of an unencrypted HTTP/1.1
// GET with status 200, so that the first such request does not allocate the series.
func NewRequests() *Requests {
	r := &Requests{
		outcomes:    make([]atomic.Uint64, gate.OutcomeSlots),
		queueWait:   newHistogram(durations),
		unforwarded: newHistogram(durations),
		clock:       time.Now,
	}
	r.series.get(keyOf(&gate.Record{Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 200}, routeTag(gate.RouteDisabled)))
	return r
}

// Rejected counts a request whose head was rejected. Such a request has no Record, so
// only the counter of its outcome includes it.
func (r *Requests) Rejected(outcome gate.Outcome) { r.outcomes[outcome].Inc() }

// Observe counts a request that has ended. If trace is not zero, the request was
// sampled and becomes the exemplar of its buckets. Observe allocates for a new
// combination of labels, and for the first traced request of a series.
func (r *Requests) Observe(x *gate.Record, trace gate.TraceID) {
	s := r.series.get(keyOf(x, r.tags.tagOf(x)))
	reached := x.Forwarded != 0
	if !reached {
		// Count the request in this histogram first, and in its series afterwards.
		// ReadTotals reads them in the reverse order and subtracts this histogram. It
		// then subtracts every request that it has read from a series and that did not
		// reach the container.
		r.unforwarded.observe(int64(x.Took()))
	}
	r.outcomes[x.Outcome].Inc()
	if x.Proxied {
		r.proxied.Inc()
	}
	r.queueWait.observe(int64(x.QueueWait()))
	s.server.observe(int64(x.Took()))
	s.request.observe(x.RequestBody)
	s.response.observe(x.ResponseBody)
	if reached {
		s.invocation.observe(int64(x.UpstreamTime()))
		s.client.observe(int64(cmp.Or(x.Responded, x.Ended) - x.Forwarded))
	}
	if trace != (gate.TraceID{}) {
		now := r.clock()
		s.server.trace(int64(x.Took()), trace, now)
		if reached {
			s.invocation.trace(int64(x.UpstreamTime()), trace, now)
		}
	}
}
