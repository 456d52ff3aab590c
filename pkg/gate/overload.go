package gate

import (
	"slices"
	"sync"
	"time"
)

// OverloadConfig is what the gate does beyond a fixed limit and a FIFO queue.
// The zero value is nothing.
type OverloadConfig struct {
	// AutoLimit makes the concurrency limit find itself within the range, in the
	// place of Config.ConcurrencyLimit; nil = it does not.
	AutoLimit *LimitRange
	// FairBy says by what those who wait take turns; unset = strict FIFO.
	FairBy Selector
	// PriorityBy names the header field with the class, 0 (first) to Classes-1,
	// alone or as the urgency u of RFC 9218. A peer that is not trusted, or says
	// nothing that can be understood, has DefaultClass.
	PriorityBy Selector
	// DeadlineBy names the header field that says for how long the client will
	// wait: as gRPC writes it (grpc-timeout), a Go duration or plain seconds.
	DeadlineBy Selector
	// MeasuredRetry makes Retry-After the time that the queue needs to drain, in
	// the place of 1.
	MeasuredRetry bool
}

// overload is the state of Gate.Overload; a gate without any has none.
type overload struct {
	gate    *Gate
	limiter *AutoLimit // nil = the limit is fixed
	service *serviceTimes
}

// fair reports whether the queue is more than a FIFO.
func (c *OverloadConfig) fair() bool { return c.FairBy.Set() || c.PriorityBy.Set() }

// NewAdmission makes the admission that c asks for.
func (c *Config) NewAdmission() *Admission {
	limit := c.ConcurrencyLimit
	if r := c.Overload.AutoLimit; r != nil {
		limit = NewAutoLimit(*r).Limit()
	}
	return NewAdmission(AdmissionConfig{Limit: limit, Capacity: c.QueueCapacity, Fair: c.Overload.fair()})
}

// newOverload is nil where nothing is asked for.
func newOverload(g *Gate) *overload {
	c := g.Overload
	if c == (OverloadConfig{}) {
		return nil
	}
	v := &overload{gate: g}
	if c.AutoLimit != nil {
		v.limiter = NewAutoLimit(*c.AutoLimit)
	}
	if c.DeadlineBy.Set() {
		v.service = new(serviceTimes)
	}
	return v
}

// arrive looks at a request before admission. With refused it ends with o.
func (v *overload) arrive(x *Exchange) (o Outcome, refused bool) {
	x.claim.begunBy = 0
	if by := &x.gate.Overload.DeadlineBy; by.Set() {
		if d, ok := parseTimeout(by.header(x.Fields)); ok {
			// It must have begun while there is time for it.
			x.claim.begunBy = max(x.clocks.Arrived+d-v.service.typical(), 1)
			return DeadlineExceeded, x.claim.late(x.clocks.Arrived)
		}
	}
	return Served, false
}

// turn tells the queue whose request x is, which only a request that has to wait
// pays for.
func (v *overload) turn(x *Exchange) {
	w := &x.claim.waiter
	w.Class, w.Key = DefaultClass, 0
	c := &x.gate.Overload
	if c.PriorityBy.Set() && x.gate.Trusts(x.Peer.Addr()) {
		w.Class = parseClass(c.PriorityBy.header(x.Fields))
	}
	if c.FairBy.Set() {
		w.Key = c.FairBy.Key(x)
	}
}

// ended looks at a request that gives its slot back.
func (v *overload) ended(x *Exchange, o Outcome) {
	a := v.gate.Admission
	answered := x.Answered
	if answered == 0 {
		answered = x.Ended
	}
	took := int64(answered - x.Admitted)
	failed := x.Status == 503 && o == Served
	switch o {
	case UpstreamReset, UpstreamClosed, UpstreamBrokeOff, RequestTimeout, ResponseStartTimeout:
		failed = true
	case Served:
	default:
		return // says nothing of the container
	}
	if v.service != nil && !failed {
		v.service.add(took)
	}
	if v.limiter != nil {
		if limit, moved := v.limiter.Ended(int64(x.Ended), took, failed, a.InFlight()); moved {
			a.SetLimit(limit)
		}
	}
}

// Probed takes how long a probe of the container has taken that ended at now,
// for a limit that finds itself.
func (g *Gate) Probed(now, took time.Duration) {
	if g.overload == nil || g.overload.limiter == nil {
		return
	}
	if limit, moved := g.overload.limiter.Probed(int64(now), int64(took), g.Admission.InFlight()); moved {
		g.Admission.SetLimit(limit)
	}
}

// parseClass reads a priority class: a digit, or u=digit among the members of
// an RFC 9218 priority.
func parseClass(value []byte) uint8 {
	for len(value) > 0 {
		member := untilAny(value, ",")
		value = value[min(len(member)+1, len(value)):]
		for len(member) > 0 && (member[0] == ' ' || member[0] == '\t') {
			member = member[1:]
		}
		if len(member) >= 3 && member[0] == 'u' && member[1] == '=' {
			member = member[2:]
		}
		if len(member) == 1 && member[0] >= '0' && member[0] < '0'+Classes {
			return member[0] - '0'
		}
	}
	return DefaultClass
}

// parseTimeout reads how long a client will wait, in ns: digits with a unit of
// gRPC (H M S m u n), a Go duration, or plain seconds.
func parseTimeout(value []byte) (ns int64, ok bool) {
	if len(value) == 0 || len(value) > 20 {
		return 0, false
	}
	digits := int64(0)
	for i, c := range value {
		switch {
		case c >= '0' && c <= '9' && i < 9:
			digits = digits*10 + int64(c-'0')
			continue
		case i > 0 && i == len(value)-1:
			if unit, known := grpcUnits[c]; known {
				return digits * int64(unit), true
			}
		}
		d, err := time.ParseDuration(string(value))
		return int64(d), err == nil && d >= 0
	}
	return digits * int64(time.Second), true
}

// grpcUnits are those of grpc-timeout (gRPC over HTTP/2, "Requests"). The lower
// case m is a millisecond there and a minute in a Go duration: gRPC's wins where
// the value is digits and one letter.
var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// serviceTimes tells how long the container takes at the least for what it is
// asked at present.
type serviceTimes struct {
	mu     sync.Mutex
	recent [64]int64
	n      int
	tenth  int64
}

// typical is the time that nine of ten recent requests took or exceeded: one
// that has less left cannot be expected to finish. 0 = nothing is known.
func (s *serviceTimes) typical() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenth
}

func (s *serviceTimes) add(took int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[s.n%len(s.recent)] = took
	s.n++
	if s.n%16 == 0 {
		sorted := s.recent
		known := sorted[:min(s.n, len(sorted))]
		slices.Sort(known)
		s.tenth = known[len(known)/10]
	}
}
