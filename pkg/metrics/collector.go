package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Names selects generations of Knative's metric names.
type Names uint8

// The generations of Knative's metric names. A metric that only the gate has belongs to
// all generations, so that every selection includes it.
const (
	Current Names = 1 << iota
	Legacy        // Knative's names before OpenTelemetry
	Both    = Current | Legacy
	always  = Both
)

// ParseNames parses "current", "legacy" or "both".
func ParseNames(s string) (Names, error) {
	switch s {
	case "current":
		return Current, nil
	case "legacy":
		return Legacy, nil
	case "both":
		return Both, nil
	}
	return 0, fmt.Errorf("metric names %q: want current, legacy or both", s)
}

// Build describes the binary.
type Build struct {
	Version, Commit, GoVersion string
}

// Dropped counts lost log lines and spans.
type Dropped struct {
	RequestLines uint64 // of the request log
	GateLines    uint64 // of the gate's own log
	Spans        int64
}

// CollectorConfig configures a Collector. Its functions are sources of values, called
// once per scrape. A metric is omitted if its source is nil.
type CollectorConfig struct {
	Names     Names // 0 = Current
	Identity  Identity
	Target    map[string]string // additional attributes of the resource, as labels of target_info
	Build     Build
	Requests  *Requests
	Readiness *Readiness
	Admission func() gate.AdmissionStats
	Upstream  func() gate.UpstreamStats
	HTTP2     func() gate.HTTP2Stats
	TLS       func() gate.TLSStats
	Settings  func() gate.SettingsStats
	Engine    func() gate.EngineStats // only used with Admission
	Dropped   func() Dropped
}

// Collector converts the gate's counts into Prometheus metrics at each scrape.
type Collector struct {
	cfg   CollectorConfig
	shown []shown
}

type shown struct {
	*row
	desc *prometheus.Desc
}

// NewCollector returns a Collector of all metrics that have a source in cfg.
func NewCollector(cfg CollectorConfig) *Collector {
	cfg.Names = cmp.Or(cfg.Names, Current)
	for _, s := range []*string{
		&cfg.Identity.Namespace, &cfg.Identity.Service, &cfg.Identity.Configuration, &cfg.Identity.Revision, &cfg.Identity.Pod,
		&cfg.Build.Version, &cfg.Build.Commit, &cfg.Build.GoVersion,
	} {
		*s = strings.ToValidUTF8(*s, "\uFFFD") // invalid UTF-8 in a label would make every scrape fail
	}
	c := &Collector{cfg: cfg}
	for i := range rows {
		if r := &rows[i]; r.names&cfg.Names != 0 && cfg.has(r.source) {
			var further prometheus.Labels
			if r.Name == targetInfo {
				further = infoLabels(cfg.Target, r.Labels)
			}
			c.shown = append(c.shown, shown{r, prometheus.NewDesc(r.Name, r.Help, r.Labels, further)})
		}
	}
	return c
}

func (cfg *CollectorConfig) has(s source) bool {
	return [...]bool{
		fixed: true, requests: cfg.Requests != nil, admission: cfg.Admission != nil, upstream: cfg.Upstream != nil,
		http2: cfg.HTTP2 != nil, tls: cfg.TLS != nil, dropped: cfg.Dropped != nil, readiness: cfg.Readiness != nil,
		settings: cfg.Settings != nil, engine: cfg.Engine != nil && cfg.Admission != nil,
	}[s]
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range c.shown {
		out <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	p := page{
		CollectorConfig: &c.cfg, out: out,
		admission: figuresOf(c.cfg.Admission), upstream: figuresOf(c.cfg.Upstream), http2: figuresOf(c.cfg.HTTP2), tls: figuresOf(c.cfg.TLS), dropped: figuresOf(c.cfg.Dropped),
		settings: figuresOf(c.cfg.Settings), engine: figuresOf(c.cfg.Engine),
	}
	if c.cfg.Requests != nil {
		c.cfg.Requests.series.each(func(s *series) { p.series = append(p.series, s.read()) })
	}
	if c.cfg.Readiness != nil {
		p.containers = c.cfg.Readiness.containers()
	}
	for _, s := range c.shown {
		p.shown = s
		s.read(&p)
	}
}

// figuresOf calls a source. It returns zero values if the source is nil.
func figuresOf[T any](source func() T) (figures T) {
	if source != nil {
		figures = source()
	}
	return figures
}

// page is the state of one scrape. It reads each source once, so that metrics are
// consistent.
type page struct {
	*CollectorConfig
	out   chan<- prometheus.Metric
	shown shown // the current row

	series     []seriesReading
	admission  gate.AdmissionStats
	upstream   gate.UpstreamStats
	http2      gate.HTTP2Stats
	tls        gate.TLSStats
	dropped    Dropped
	settings   gate.SettingsStats
	engine     gate.EngineStats
	containers []gate.ContainerState
}

// number sends a sample of a counter or gauge. It omits a counter whose value is 0,
// unless the row of the metric selects the series to be shown at 0 (see row.initial).
func (p *page) number(v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if p.shown.Kind == Counter {
		kind = prometheus.CounterValue
		if v == 0 && !p.shown.initial(labels) {
			return
		}
	}
	p.out <- prometheus.MustNewConstMetric(p.shown.desc, kind, v, labels...)
}

// histogram sends a sample of a histogram. It omits an empty histogram, unless the row of
// the metric selects the series to be shown at 0 (see row.initial).
func (p *page) histogram(r *reading, v *view, native bool, labels ...string) {
	if r.count == 0 && !p.shown.initial(labels) {
		return
	}
	var m prometheus.Metric = &histogramSample{p.shown.desc, r.show(v, native), prometheus.MakeLabelPairs(p.shown.desc, labels)}
	if len(r.exemplars) > 0 {
		m = withExemplars(m, v, r.exemplars)
	}
	p.out <- m
}

// seriesReading is a snapshot of the histograms of a series.
type seriesReading struct {
	key                                           seriesKey
	server, invocation, client, request, response reading
}

func (s *series) read() seriesReading {
	return seriesReading{s.key, s.server.read(), s.invocation.read(), s.client.read(), s.request.read(), s.response.read()}
}

// These functions select one histogram of a series.
func server(s *seriesReading) *reading     { return &s.server }
func invocation(s *seriesReading) *reading { return &s.invocation }
func client(s *seriesReading) *reading     { return &s.client }
func request(s *seriesReading) *reading    { return &s.request }
func response(s *seriesReading) *reading   { return &s.response }

// sumBy groups the series by some of their labels, and adds up one histogram per group.
// The first parameter is a mask that selects these labels. The callback returns the
// histogram of a series. The result maps the selected label values to the sum for their
// group.
func (p *page) sumBy(labels seriesKey, get func(*seriesReading) *reading) map[seriesKey]*reading {
	sums := map[seriesKey]*reading{}
	for i := range p.series {
		s := &p.series[i]
		k, r := s.key&labels, get(s)
		if sum := sums[k]; sum != nil {
			sum.add(r)
			continue
		}
		copied := *r
		copied.cells = slices.Clone(r.cells)
		sums[k] = &copied
	}
	return sums
}

func (p *page) sum(get func(*seriesReading) *reading) (sum float64) {
	for i := range p.series {
		sum += float64(get(&p.series[i]).sum)
	}
	return sum
}

func (p *page) httpValues(k seriesKey) []string {
	protocol := &protocols[k>>protocolShift]
	return []string{k.method(), k.codeText(), p.Requests.tags.name(k.tag()), protocol.name, protocol.version, otelHTTP, protocol.scheme}
}

// legacy returns the label values of a metric with a legacy name. All of these metrics
// begin with the labels that identify the pod and the container. The given values are
// added after them.
func (p *page) legacy(further ...string) []string {
	id := &p.Identity
	return append([]string{id.Namespace, id.Service, id.Configuration, id.Revision, id.Pod, gateContainer}, further...)
}

func (p *page) legacyCode(k seriesKey) []string {
	return p.legacy(k.codeText(), classNames[k.class()])
}

func (p *page) legacyTag(k seriesKey) []string {
	return append(p.legacyCode(k), p.Requests.tags.legacyName(k.tag()))
}

// maxProblemBytes is the maximum length of a label value with an error message.
const maxProblemBytes = 200

func firstProblem(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > maxProblemBytes {
		text = text[:maxProblemBytes] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (p *page) results(succeeded, failed uint64) {
	p.number(float64(succeeded), "success")
	p.number(float64(failed), "failure")
}

func (p *page) single(h *histogram, labels ...string) {
	r := h.read()
	p.histogram(&r, durationsCurrent, true, labels...)
}

// histogramSample is a histogram with both classic and native buckets, which
// client_golang's constant metrics do not support.
type histogramSample struct {
	desc      *prometheus.Desc
	histogram *dto.Histogram
	labels    []*dto.LabelPair
}

func (s *histogramSample) Desc() *prometheus.Desc { return s.desc }

func (s *histogramSample) Write(m *dto.Metric) error {
	m.Label, m.Histogram = s.labels, s.histogram
	return nil
}
