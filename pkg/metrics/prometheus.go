package metrics

import (
	"cmp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Build says what was built.
type Build struct {
	Version, Commit, GoVersion string
}

// Dropped is what was lost on its way to a log or a collector.
type Dropped struct {
	LogLines uint64
	Spans    int64
}

// CollectorConfig is what a Collector shows. Callbacks are called once per
// scrape, on the scraper's goroutine; what is nil is not shown.
type CollectorConfig struct {
	Names     Names // 0 = Current
	Identity  Identity
	Build     Build
	Requests  *Requests
	Readiness *Readiness
	Admission func() gate.AdmissionStats
	Upstream  func() gate.UpstreamStats
	HTTP2     func() gate.HTTP2Stats
	TLS       func() gate.TLSStats
	Dropped   func() Dropped
}

// Collector turns the figures into Prometheus' metrics when it is asked to.
type Collector struct {
	cfg    CollectorConfig
	shown  []*family
	descs  []*prometheus.Desc // of shown
	legacy []string           // values of legacyIdentity
}

// NewCollector makes the descriptions of all metrics that cfg has sources for.
func NewCollector(cfg CollectorConfig) *Collector {
	cfg.Names = cmp.Or(cfg.Names, Current)
	for _, s := range []*string{
		&cfg.Identity.Namespace, &cfg.Identity.Service, &cfg.Identity.Configuration, &cfg.Identity.Revision, &cfg.Identity.Pod,
		&cfg.Build.Version, &cfg.Build.Commit, &cfg.Build.GoVersion,
	} {
		*s = strings.ToValidUTF8(*s, "\uFFFD") // else every scrape would fail
	}
	c := &Collector{cfg: cfg, legacy: cfg.Identity.legacyValues()}
	for i := range families {
		if f := &families[i]; cfg.Names.shows(f.era) {
			c.shown = append(c.shown, f)
			c.descs = append(c.descs, prometheus.NewDesc(f.Name, f.Help, f.Labels, nil))
		}
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	p := page{out: out}
	if c.cfg.Requests != nil {
		p.gather(c.cfg.Requests)
	}
	if c.cfg.Admission != nil {
		a := c.cfg.Admission()
		p.admission = &a
	}
	if c.cfg.Upstream != nil {
		u := c.cfg.Upstream()
		p.upstream = &u
	}
	if c.cfg.HTTP2 != nil {
		h := c.cfg.HTTP2()
		p.http2 = &h
	}
	if c.cfg.TLS != nil {
		t := c.cfg.TLS()
		p.tls = &t
	}
	if c.cfg.Dropped != nil {
		d := c.cfg.Dropped()
		p.dropped = &d
	}
	if r := c.cfg.Readiness; r != nil && r.cfg.Look != nil {
		p.containers = r.cfg.Look()
		p.containers = p.containers[:min(len(p.containers), len(r.cfg.Containers))]
	}
	for i, f := range c.shown {
		p.family, p.desc = f, c.descs[i]
		f.samples(c, &p)
	}
}

// page is one answer in the making: figures read once, so that its metrics
// agree with each other.
type page struct {
	out    chan<- prometheus.Metric
	family *family
	desc   *prometheus.Desc

	requests   *Requests
	total      []series // by route tag and code, ascending
	container  []series // by code
	admission  *gate.AdmissionStats
	upstream   *gate.UpstreamStats
	http2      *gate.HTTP2Stats
	tls        *gate.TLSStats
	dropped    *Dropped
	containers []Container
}

// series is what was recorded of one status and, where they are told apart,
// route tag.
type series struct {
	tag  RouteTag
	code int
	reading
}

func (p *page) gather(r *Requests) {
	p.requests = r
	for tag := range r.total {
		if b := r.total[tag].Load(); b != nil {
			p.total = appendSeries(p.total, RouteTag(tag), b)
		}
	}
	p.container = appendSeries(nil, 0, &r.container)
}

func appendSeries(dst []series, tag RouteTag, b *byCode) []series {
	for i := range b {
		if h := b[i].Load(); h != nil {
			dst = append(dst, series{tag, firstCode + i, h.read()})
		}
	}
	return dst
}

// number sends a sample of a counter or gauge.
func (p *page) number(v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if p.family.Kind == Counter {
		kind = prometheus.CounterValue
	}
	p.out <- prometheus.MustNewConstMetric(p.desc, kind, v, labels...)
}

// histogram sends a sample of a histogram, as reading.show makes it.
func (p *page) histogram(r *reading, v *view, native bool, labels ...string) {
	var m prometheus.Metric = &histogramSample{p.desc, r.show(v, native), prometheus.MakeLabelPairs(p.desc, labels)}
	if len(r.exemplars) > 0 {
		m = withExemplars(m, v, r.exemplars)
	}
	p.out <- m
}

// histogramSample is a histogram with classic and native buckets at once,
// which client_golang's constant metrics cannot have.
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
