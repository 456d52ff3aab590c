package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
)

// The methods here send the samples of one family each. Those without a source
// send nothing.

func (c *Collector) invocations(p *page) {
	for i := range p.container {
		s := &p.container[i]
		p.histogram(&s.reading, durationsCurrent, true, codeText(s.code))
	}
}

func (c *Collector) serverDurations(p *page) {
	for i := range p.total {
		s := &p.total[i]
		p.histogram(&s.reading, durationsCurrent, true, codeText(s.code), p.requests.name(s.tag, &currentTagWords))
	}
}

func (c *Collector) requestBodies(p *page) {
	if p.requests != nil {
		p.single(p.requests.requestBody, sizesCurrent)
	}
}

func (c *Collector) responseBodies(p *page) {
	if p.requests != nil {
		p.single(p.requests.responseBody, sizesCurrent)
	}
}

func (c *Collector) queueWaits(p *page) {
	if p.requests != nil {
		p.single(p.requests.queueWait, durationsCurrent)
	}
}

func (p *page) single(h *histogram, v *view, labels ...string) {
	r := h.read()
	p.histogram(&r, v, true, labels...)
}

func (c *Collector) targetInfo(p *page) {
	id := &c.cfg.Identity
	p.number(1, cmp.Or(id.Service, id.Configuration, id.Revision), id.Pod, c.cfg.Build.Version, gateContainer,
		id.Namespace, id.Pod, id.Service, id.Configuration, id.Revision)
}

func (c *Collector) buildInfo(p *page) {
	b := &c.cfg.Build
	p.number(1, b.Version, b.Commit, b.GoVersion)
}

// legacyLabels are the values of the labels of a legacy metric.
func (c *Collector) legacyLabels(values ...string) []string {
	return append(c.legacy[:len(c.legacy):len(c.legacy)], values...)
}

func (c *Collector) legacyRequests(p *page) {
	for i := range p.total {
		s := &p.total[i]
		p.number(float64(s.count), c.legacyLabels(codeText(s.code), class(s.code), p.requests.name(s.tag, &legacyTagWords))...)
	}
}

func (c *Collector) legacyLatencies(p *page) {
	for i := range p.total {
		s := &p.total[i]
		p.histogram(&s.reading, durationsLegacy, false,
			c.legacyLabels(codeText(s.code), class(s.code), p.requests.name(s.tag, &legacyTagWords))...)
	}
}

func (c *Collector) legacyAppRequests(p *page) {
	for i := range p.container {
		s := &p.container[i]
		p.number(float64(s.count), c.legacyLabels(codeText(s.code), class(s.code))...)
	}
}

func (c *Collector) legacyAppLatencies(p *page) {
	for i := range p.container {
		s := &p.container[i]
		p.histogram(&s.reading, durationsLegacy, false, c.legacyLabels(codeText(s.code), class(s.code))...)
	}
}

func (c *Collector) queueDepth(p *page) {
	if p.admission == nil {
		return
	}
	var labels []string
	if p.family.era == Legacy {
		labels = c.legacy
	}
	p.number(float64(p.admission.QueueDepth), labels...)
}

func (c *Collector) outcomes(p *page) {
	if p.requests == nil {
		return
	}
	for i, name := range p.requests.outcomeNames {
		p.number(float64(p.requests.outcomes[i].Load()), name)
	}
}

var classNames = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "other"}

func class(code int) string { return classNames[code/100-1] }

func codeText(code int) string {
	if code == otherCode {
		return "other"
	}
	return strconv.Itoa(code)
}

func (c *Collector) classes(p *page) {
	if p.requests == nil {
		return
	}
	var counts [len(classNames)]uint64
	for i := range p.total {
		counts[p.total[i].code/100-1] += p.total[i].count
	}
	for i, n := range counts {
		p.number(float64(n), classNames[i])
	}
}

func (c *Collector) proxiedRequests(p *page) {
	if p.requests != nil {
		p.number(float64(p.requests.proxied.Load()))
	}
}

func (c *Collector) requestBytes(p *page) {
	if p.requests != nil {
		p.number(float64(p.requests.requestBody.sum.Load()))
	}
}

func (c *Collector) responseBytes(p *page) {
	if p.requests != nil {
		p.number(float64(p.requests.responseBody.sum.Load()))
	}
}

func (c *Collector) inFlight(p *page) {
	if p.admission != nil {
		p.number(float64(p.admission.InFlight))
	}
}

func (c *Collector) queueCapacity(p *page) {
	if p.admission != nil {
		p.number(float64(p.admission.QueueCapacity))
	}
}

func (c *Collector) concurrencyLimit(p *page) {
	if p.admission == nil {
		return
	}
	limit := float64(p.admission.ConcurrencyLimit)
	if limit == 0 {
		limit = math.Inf(1)
	}
	p.number(limit)
}

func (c *Collector) openConnections(p *page) {
	if p.upstream != nil {
		p.number(float64(p.upstream.Open))
	}
}

func (c *Collector) idleConnections(p *page) {
	if p.upstream != nil {
		p.number(float64(p.upstream.Idle))
	}
}

func (c *Collector) dials(p *page) {
	if p.upstream != nil {
		p.number(float64(p.upstream.Dials))
	}
}

func (c *Collector) reuses(p *page) {
	if p.upstream != nil {
		p.number(float64(p.upstream.Reuses))
	}
}

func (c *Collector) replays(p *page) {
	if p.upstream != nil {
		p.number(float64(p.upstream.Replays))
	}
}

func (c *Collector) http2Connections(p *page) {
	if p.http2 != nil {
		p.number(float64(p.http2.Connections))
	}
}

func (c *Collector) http2Faults(p *page) {
	if p.http2 != nil {
		for _, kind := range slices.Sorted(maps.Keys(p.http2.Errors)) {
			p.number(float64(p.http2.Errors[kind]), kind)
		}
	}
}

func (c *Collector) certificateExpiry(p *page) {
	if p.tls == nil {
		return
	}
	end := 0.0
	if !p.tls.NotAfter.IsZero() {
		end = float64(p.tls.NotAfter.Unix())
	}
	p.number(end)
}

func (c *Collector) certificateLoads(p *page) {
	if p.tls != nil {
		p.results(p.tls.Reloads, p.tls.ReloadFailures)
	}
}

func (c *Collector) handshakes(p *page) {
	if p.tls != nil {
		p.results(p.tls.Handshakes, p.tls.HandshakeFailures)
	}
}

// results are the two samples of what succeeds or fails.
func (p *page) results(succeeded, failed uint64) {
	p.number(float64(succeeded), "success")
	p.number(float64(failed), "failure")
}

func (c *Collector) droppedLines(p *page) {
	if p.dropped != nil {
		p.number(float64(p.dropped.LogLines))
	}
}

func (c *Collector) droppedSpans(p *page) {
	if p.dropped != nil {
		p.number(float64(p.dropped.Spans))
	}
}

func (c *Collector) states(p *page) {
	for i := range p.containers {
		for _, state := range c.cfg.Readiness.cfg.States {
			v := 0.0
			if state == p.containers[i].State {
				v = 1
			}
			p.number(v, c.cfg.Readiness.cfg.Containers[i], state)
		}
	}
}

func (c *Collector) transitions(p *page) {
	r := c.cfg.Readiness
	if r == nil {
		return
	}
	for i, counts := range r.transitions {
		for k := range counts {
			to := otherTransition
			if k < len(r.cfg.Transitions) {
				to = r.cfg.Transitions[k]
			}
			p.number(float64(counts[k].Load()), r.cfg.Containers[i], to.State, to.Cause)
		}
	}
}

func (c *Collector) probeAttempts(p *page) {
	for i := range p.containers {
		p.number(float64(p.containers[i].Attempts), c.cfg.Readiness.cfg.Containers[i])
	}
}

func (c *Collector) probeConnections(p *page) {
	for i := range p.containers {
		p.number(float64(p.containers[i].Reached), c.cfg.Readiness.cfg.Containers[i])
	}
}

func (c *Collector) probeDurations(p *page) {
	if r := c.cfg.Readiness; r != nil {
		for i, h := range r.probes {
			p.single(h, durationsCurrent, r.cfg.Containers[i])
		}
	}
}
