package exchange

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// OverloadConfig configures overload control beyond a fixed limit and a FIFO queue. The
// zero value disables it.
type OverloadConfig struct {
	// AutoLimit enables the adaptive concurrency limit within this range, which replaces
	// Config.ConcurrencyLimit; nil = off.
	AutoLimit *admission.LimitRange
	// QueuePerSlot makes the queue capacity follow the adaptive limit: the capacity is
	// this number (1 to 16) times the limit. It replaces Config.QueueCapacity; 0 = off.
	// If a FIFO queue with this setting no longer drains, its oldest requests are
	// rejected with QueueWaitExpired.
	QueuePerSlot int
	// FairBy selects the key by which queued requests share slots fairly; unset = FIFO.
	// The key of an untrusted peer is its address (IPv6: its /64).
	FairBy Selector
	// PriorityBy names the header field with the priority class: 0 (highest) to
	// Classes-1, as a digit or as the urgency u of RFC 9218. Without a valid field from a
	// trusted peer, a request gets DefaultClass.
	PriorityBy Selector
	// DeadlineBy names the header field with the client's timeout: in gRPC's form
	// (grpc-timeout), a Go duration, or a plain number (ParseTimeoutSelector). Fields
	// from untrusted peers are ignored.
	DeadlineBy Selector
	// CostBy selects the value from which the cost of a request is computed: the length
	// of its body, or the number in a header field (ParseCostSelector). With the length,
	// four bytes cost one unit. CostBy requires CostLimit.
	CostBy Selector
	// CostLimit limits the total cost of the requests in flight, up to admission.MaxCost;
	// 0 = off. It does not require a concurrency limit.
	CostLimit int
	// Brake lets Gate.Admission.SetRoom limit how many further requests are admitted.
	Brake bool
	// Evict lets a queued request evict a request in flight that has a lower class, and
	// take over its slot. Evict requires PriorityBy.
	Evict Eviction
	// MeasuredRetry sets the Retry-After of requests rejected by the queue to their
	// estimated wait, which is derived from the recent drain rate. If MeasuredRetry is
	// false, their Retry-After is 1 second.
	MeasuredRetry bool
}

// overload implements Config.Overload. nil = off.
type overload struct {
	OverloadConfig
	gate    *Gate
	limiter *admission.AutoLimit // nil if the limit is fixed
	service *admission.ServiceTimes
}

// tracked holds what overload control records about a request. The exchange reuses it
// for its later requests.
type tracked struct {
	// uploaded is the time at which bytes of the request body were last forwarded. Bytes
	// forwarded after the final response head do not count.
	uploaded time.Duration
	early    bool // the final response head arrived before the end of the upload
	sampled  bool // the service time has been added to the estimates
	uploads  bool // counted in Gate.Uploads
	evictable
}

func (v *overload) track(x *Exchange) {
	if x.tracked == nil {
		x.tracked = &tracked{evictable: evictable{wake: x.ticket.Waiter.Notify}}
	}
	x.tracked.uploaded, x.tracked.early, x.tracked.sampled = 0, false, false
}

// fair reports whether the queue uses classes or keys.
func (c *OverloadConfig) fair() bool { return c.FairBy.Set() || c.PriorityBy.Set() }

func (c *Config) NewAdmission() *admission.Controller {
	return admission.New(c.admission(newOverload(nil, c.Overload, nil)))
}

// admission returns the configuration of the admission.Controller for c. v implements
// c.Overload.
func (c *Config) admission(v *overload) admission.Config {
	a := admission.Config{
		Limit: c.ConcurrencyLimit, Capacity: c.QueueCapacity, Fair: c.Overload.fair(),
		CostLimit: c.Overload.CostLimit, Brake: c.Overload.Brake,
	}
	if v != nil && v.limiter != nil {
		a.Limit, a.CapacityPerSlot = v.limiter.Limit(), c.Overload.QueuePerSlot
		a.ShedStanding = a.CapacityPerSlot > 0
	}
	return a
}

// newOverload returns the overload control for c; nil = off. It takes over the estimates
// of previous, which may be nil.
func newOverload(g *Gate, c OverloadConfig, previous *overload) *overload {
	if c == (OverloadConfig{}) {
		return nil
	}
	v := &overload{OverloadConfig: c, gate: g}
	if previous == nil {
		previous = new(overload)
	}
	switch {
	case c.AutoLimit == nil:
	case previous.limiter != nil && *previous.AutoLimit == *c.AutoLimit:
		v.limiter = previous.limiter
	default:
		v.limiter = admission.NewAutoLimit(*c.AutoLimit)
	}
	switch {
	case !c.DeadlineBy.Set():
	case previous.service != nil:
		v.service = previous.service
	default:
		v.service = new(admission.ServiceTimes)
	}
	return v
}

// checkDeadline derives the latest time to start the request from the client's deadline.
// It returns DeadlineExceeded if that time has passed.
func (v *overload) checkDeadline(x *Exchange) gate.Outcome {
	x.ticket.StartBy = 0
	selector := &v.DeadlineBy
	if !selector.Set() || !x.gate.Trusts(x.Peer.Addr()) {
		return gate.Undecided
	}
	d, ok := selector.timeout(x.Fields)
	if !ok {
		return gate.Undecided
	}
	now := x.timeouts.Arrived
	deadline := max(now+int64(d), 1)
	path := pathHash(x)
	shortest, typical := v.service.Estimate(path, now)
	if isLate := now >= deadline-shortest; isLate && (now >= deadline || !v.service.TryTrial(path, now)) {
		x.ticket.StartBy = max(deadline-shortest, 1)
		return gate.DeadlineExceeded
	} else if isLate {
		x.ticket.StartBy = deadline // start as a trial, although a late response is likely
		return gate.Undecided
	}
	// Under overload, requests start at the latest time allowed. If only the shortest
	// service time were reserved, nearly all responses would be late.
	x.ticket.StartBy = max(deadline-max(shortest, min(typical, int64(d)/maxMargin)), 1)
	return gate.Undecided
}

// maxMargin limits the time that checkDeadline reserves for the typical service time: it
// is at most 1/maxMargin of the request's timeout. Otherwise slow requests of other
// clients could raise the typical time so far that a request could not wait in the queue
// at all.
const maxMargin = 4

// setOrder sets the class, key and cost of a request that needs to be queued. v may be
// nil.
func (v *overload) setOrder(x *Exchange) {
	w := &x.ticket.Waiter
	w.Class, w.Key = admission.DefaultClass, 0
	if v == nil {
		return
	}
	trusted := x.gate.Trusts(x.Peer.Addr())
	w.Class = v.classOf(x, trusted)
	switch {
	case v.FairBy.Set() && trusted:
		w.Key = v.FairBy.Key(x)
	case v.FairBy.Set():
		w.Key = Selector{kind: selectPeer}.Key(x)
	}
	if v.CostBy.Set() {
		w.SetCost(v.CostBy.cost(x, trusted))
	}
}

func (v *overload) classOf(x *Exchange, trusted bool) uint8 {
	if !v.PriorityBy.Set() || !trusted {
		return admission.DefaultClass
	}
	return parseClass(v.PriorityBy.header(x.Fields))
}

// addSample adds the result of a request to the estimates. Call it before the request
// releases its slot.
func (v *overload) addSample(x *Exchange, o gate.Outcome) {
	a := v.gate.Admission
	took, known := x.containerTime(o)
	if !known {
		return
	}
	failed := o.Meaning().Overload || o == gate.Served && x.Status == 503
	if !failed && o != gate.Served {
		return // this outcome says nothing about the container
	}
	if v.service != nil && !failed && !x.tracked.sampled {
		v.service.Add(pathHash(x), int64(x.Ended), took)
	}
	if v.limiter != nil {
		if _, moved := v.limiter.AddSample(int64(x.Ended), took, failed, a.InFlight()); moved {
			v.gate.applyLimit(v.limiter)
		}
	}
}

// beginUpload counts the request of x in Gate.Uploads until endUpload. v may be nil.
func (v *overload) beginUpload(x *Exchange) {
	if v != nil && v.Brake && x.down != nil && !x.Unlimited && !x.down.Ended() {
		x.tracked.uploads = true
		x.gate.Uploads.Inc()
	}
}

// endUpload undoes beginUpload. Further calls have no effect. v may be nil.
func (v *overload) endUpload(x *Exchange) {
	if v != nil && x.tracked.uploads {
		x.tracked.uploads = false
		x.gate.Uploads.Dec()
	}
}

// addFirstByte adds the service time up to the first byte of the response body, once. The
// head is not used, because a model server sends it long before the first event.
func (v *overload) addFirstByte(x *Exchange) {
	t := x.tracked
	if t.early || t.sampled || x.Status == 503 {
		return
	}
	t.sampled = true
	now := int64(x.clock())
	v.service.Add(pathHash(x), now, max(now-int64(max(x.Admitted, t.uploaded)), 0))
}

// checkStall adjusts an adaptive limit that long-running requests have frozen. v may be
// nil.
func (v *overload) checkStall(now int64) {
	if v == nil || v.limiter == nil {
		return
	}
	if _, moved := v.limiter.CheckStall(now, v.gate.Admission.InFlight()); moved {
		v.gate.applyLimit(v.limiter)
	}
}

// nextStallCheck returns the time of the next call of checkStall; 0 = never. v may be
// nil.
func (v *overload) nextStallCheck(now int64) int64 {
	if v == nil || v.limiter == nil {
		return 0
	}
	return now + admission.StallCheck
}

// containerTime returns how long the container worked on a request. This time begins at
// the admission, or at the last body byte sent if that is later. It ends at the response
// head or the failure. The result known is false if the upload was incomplete then. There
// is one exception, for bidirectional streams: known is true if the request was served
// with a status below 400.
func (x *Exchange) containerTime(o gate.Outcome) (took int64, known bool) {
	respondedAt, incomplete := x.Responded, x.tracked.early
	if respondedAt == 0 {
		respondedAt, incomplete = x.Ended, x.down != nil && !x.down.Ended()
	}
	if incomplete && (o != gate.Served || x.Status >= 400) {
		return 0, false
	}
	return max(int64(respondedAt-max(x.Admitted, x.tracked.uploaded)), 0), true
}

// AddCheck adds the duration of a readiness check to the adaptive limit. The parameter
// now is the time at which the check ended, and took is its duration.
func (g *Gate) AddCheck(now, took time.Duration) {
	v := g.settings.Load().overload
	if v == nil || v.limiter == nil {
		return
	}
	if _, moved := v.limiter.AddCheck(int64(now), int64(took), g.Admission.InFlight()); moved {
		g.applyLimit(v.limiter)
	}
}

// parseClass parses a digit, or the member u=digit of an RFC 9218 priority.
func parseClass(value []byte) uint8 {
	for len(value) > 0 {
		member := beforeAny(value, ",")
		value = value[min(len(member)+1, len(value)):]
		for len(member) > 0 && (member[0] == ' ' || member[0] == '\t') {
			member = member[1:]
		}
		if len(member) >= 3 && member[0] == 'u' && member[1] == '=' {
			member = member[2:]
		}
		if len(member) == 1 && member[0] >= '0' && member[0] < '0'+admission.Classes {
			return member[0] - '0'
		}
	}
	return admission.DefaultClass
}

// maxTimeout caps timeouts so that they can be added to a time in ns without overflow.
const maxTimeout = 100 * 365 * 24 * time.Hour

// parseTimeout parses a client's timeout: digits with a gRPC unit (H M S m u n), a Go
// duration, or digits alone, which count the parameter unit. A timeout above maxTimeout
// is reduced to maxTimeout.
func parseTimeout(value []byte, unit time.Duration) (d time.Duration, ok bool) {
	if len(value) == 0 || len(value) > 20 {
		return 0, false
	}
	digits := int64(0)
	for i, c := range value {
		switch {
		case c >= '0' && c <= '9':
			digits = min(digits*10+int64(c-'0'), int64(maxTimeout/10)) // cannot overflow in the next iteration
			continue
		case i > 0 && i == len(value)-1:
			if unit, known := grpcUnits[c]; known {
				return saturate(digits, unit), true
			}
		}
		d, err := time.ParseDuration(string(value))
		return min(d, maxTimeout), err == nil && d >= 0
	}
	return saturate(digits, unit), true
}

func saturate(n int64, unit time.Duration) time.Duration {
	if n > int64(maxTimeout/unit) {
		return maxTimeout
	}
	return time.Duration(n) * unit
}

// grpcUnits are the units of grpc-timeout (gRPC over HTTP/2, "Requests"). Digits with one
// letter have gRPC's meaning: m is a millisecond, not a minute as in a Go duration.
var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}
