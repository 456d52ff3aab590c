package metrics

import (
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Record is what is counted of a request that has ended.
type Record struct {
	Status  int   // as the client got it, or as the outcome means it
	Outcome uint8 // index into the names that NewRequests was given
	Route   RouteTag
	Proxied bool // by the activator
	Reached bool // some of the request went to the container

	Queued   time.Duration // from arrival to admission, or to the end without one
	Upstream time.Duration // from the first byte to the container to the end; only if Reached
	Total    time.Duration // from arrival to the end

	RequestBytes  int64 // of the body
	ResponseBytes int64

	TraceID [16]byte // of a request whose trace was sampled; else zero
}

// Requests holds the figures of ended requests. Observe may be called from
// several goroutines at once.
type Requests struct {
	RouteTags

	outcomeNames []string
	outcomes     []atomic.Uint64
	proxied      atomic.Uint64

	total     [maxRouteTags]atomic.Pointer[byCode]
	container byCode
	queueWait *histogram

	turnedAway *histogram // of those in total that did not get to the container and are not the gate's failures

	requestBody, responseBody *histogram

	clock func() time.Time // of exemplars
}

// Status codes that are told apart; all others share the last index.
const (
	firstCode = 100
	lastCode  = 599
	otherCode = lastCode + 1
	codeCount = otherCode - firstCode + 1
)

// byCode has a histogram of durations for each status code that has occurred.
type byCode [codeCount]atomic.Pointer[histogram]

func codeIndex(code int) int {
	if code < firstCode || code > lastCode {
		code = otherCode
	}
	return code - firstCode
}

func (b *byCode) of(code int) *histogram {
	p := &b[codeIndex(code)]
	if h := p.Load(); h != nil {
		return h
	}
	p.CompareAndSwap(nil, newHistogram(durations))
	return p.Load()
}

// NewRequests knows outcomes by the index of their names. Series of status 200
// exist from the beginning.
func NewRequests(outcomes []string) *Requests {
	r := &Requests{
		outcomeNames: outcomes,
		outcomes:     make([]atomic.Uint64, len(outcomes)),
		queueWait:    newHistogram(durations),
		turnedAway:   newHistogram(durations),
		requestBody:  newHistogram(sizes),
		responseBody: newHistogram(sizes),
		clock:        time.Now,
	}
	r.tagged(TagDisabled).of(200)
	r.container.of(200)
	return r
}

func (r *Requests) tagged(tag RouteTag) *byCode {
	if int(tag) >= maxRouteTags {
		tag = TagOther
	}
	p := &r.total[tag]
	if b := p.Load(); b != nil {
		return b
	}
	p.CompareAndSwap(nil, new(byCode))
	return p.Load()
}

// Rejected counts what never became a request. Only its outcome is known.
func (r *Requests) Rejected(outcome uint8) {
	if int(outcome) < len(r.outcomes) {
		r.outcomes[outcome].Inc()
	}
}

// Observe counts a request that has ended; a traced one becomes the exemplar of
// its buckets. It allocates when it sees a status or a route tag for the first
// time, and for the first time in a traced request.
func (r *Requests) Observe(x *Record) {
	if int(x.Outcome) < len(r.outcomes) {
		r.outcomes[x.Outcome].Inc()
		if !x.Reached && isTurnedAway(gate.Outcome(x.Outcome)) {
			r.turnedAway.observe(int64(x.Total)) // before total: see ReadTotals
		}
	}
	if x.Proxied {
		r.proxied.Inc()
	}
	r.tagged(x.Route).of(x.Status).observe(int64(x.Total))
	if x.Reached {
		r.container.of(x.Status).observe(int64(x.Upstream))
	}
	r.queueWait.observe(int64(x.Queued))
	r.requestBody.observe(x.RequestBytes)
	r.responseBody.observe(x.ResponseBytes)
	if x.TraceID != [16]byte{} {
		r.trace(x)
	}
}

// isTurnedAway is true of what has no latency unless it reached the container.
func isTurnedAway(o gate.Outcome) bool {
	c := o.Class()
	return c == gate.ClassRefused || c == gate.ClassClientError
}

func (r *Requests) trace(x *Record) {
	now := r.clock()
	r.tagged(x.Route).of(x.Status).trace(int64(x.Total), x.TraceID, now)
	if x.Reached {
		r.container.of(x.Status).trace(int64(x.Upstream), x.TraceID, now)
	}
}
