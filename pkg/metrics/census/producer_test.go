package census

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opencensus.io/metric/metricdata"
	"go.opencensus.io/metric/metricproducer"
)

var _ metricproducer.Producer = (*Producer)(nil)

// sources are metrics with variable values, including metrics that the Producer omits.
type sources struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	depth    prometheus.Gauge
}

func newSources() *sources {
	s := &sources{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queuegate_request_outcomes_total", Help: "By outcome."}, []string{"outcome"}),
		depth:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "kn_serving_queue_depth", Help: "Waiting."}),
	}
	s.registry.MustRegister(s.requests, s.depth,
		prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kn_serving_invocation_duration_seconds", Help: "How long."}),
		prometheus.NewSummary(prometheus.SummaryOpts{Name: "took_seconds", Help: "A summary."}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "target_info", Help: "Who."}))
	return s
}

// values returns the values of a registry, by name and labels.
func values(read []*metricdata.Metric) map[string]float64 {
	all := map[string]float64{}
	for _, m := range read {
		for _, series := range m.TimeSeries {
			name := m.Descriptor.Name
			for i, l := range series.LabelValues {
				name += " " + m.Descriptor.LabelKeys[i].Key + "=" + l.Value
			}
			all[name] = series.Points[0].Value.(float64)
		}
	}
	return all
}

func TestCountersAndGaugesAreExportedToOpenCensus(t *testing.T) {
	s := newSources()
	f := NewProducer(s.registry.Gather, nil)
	s.requests.WithLabelValues("served").Add(3)
	s.depth.Set(7)
	read := f.Read()
	if got := values(read); len(got) != 2 || got["queuegate_request_outcomes_total outcome=served"] != 3 || got["kn.serving.queue.depth"] != 7 {
		t.Fatalf("metrics %v", got)
	}
	depth, requests := read[0].Descriptor, read[1].Descriptor
	if depth.Type != metricdata.TypeGaugeFloat64 || depth.Unit != "{request}" || depth.Description != "Waiting." || requests.Type != metricdata.TypeCumulativeFloat64 {
		t.Errorf("descriptors %+v and %+v", depth, requests)
	}
	s.requests.WithLabelValues("served").Inc()
	s.requests.WithLabelValues("queue-full").Inc()
	s.depth.Set(math.Inf(1))
	if got := values(f.Read()); len(got) != 3 || got["queuegate_request_outcomes_total outcome=served"] != 4 ||
		got["queuegate_request_outcomes_total outcome=queue-full"] != 1 || !math.IsInf(got["kn.serving.queue.depth"], 1) {
		t.Errorf("metrics %v", got)
	}
}

func TestTheProducerMayBeReadConcurrently(t *testing.T) {
	s := newSources()
	f := NewProducer(s.registry.Gather, nil)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 50 {
				s.requests.WithLabelValues("served").Inc()
				f.Read()
			}
		})
	}
	readers.Wait()
	if got := values(f.Read()); got["queuegate_request_outcomes_total outcome=served"] != 400 {
		t.Errorf("metrics %v", got)
	}
}

func TestLongLabelsAreTruncatedNotMixedUp(t *testing.T) {
	s := newSources()
	for _, n := range []int{1, 254, 255, 256, 300, 511, 512} {
		s.requests.WithLabelValues(strings.Repeat("x", n)).Inc()
		s.requests.WithLabelValues(strings.Repeat("é", n)).Inc()
	}
	got := values(NewProducer(s.registry.Gather, nil).Read())
	for name := range got {
		if _, value, ok := strings.Cut(name, "outcome="); ok && (len(value) > maxLabelBytes || strings.Trim(value, "x") != "" && strings.Trim(value, "é") != "") {
			t.Errorf("label %q", value)
		}
	}
	for _, want := range []string{"x", strings.Repeat("x", 254), "é", strings.Repeat("é", 127)} {
		if _, ok := got["queuegate_request_outcomes_total outcome="+want]; !ok {
			t.Errorf("no %q", want)
		}
	}
}

func TestGatheredMetricsAreShownDespiteAnError(t *testing.T) {
	s, broken := newSources(), errors.New("broken")
	s.depth.Set(1)
	var failures []error
	f := NewProducer(func() ([]*dto.MetricFamily, error) {
		families, _ := s.registry.Gather()
		return families, broken
	}, func(err error) { failures = append(failures, err) })
	if got := values(f.Read()); len(got) != 1 || got["kn.serving.queue.depth"] != 1 {
		t.Errorf("metrics %v", got)
	}
	if len(failures) != 1 || !errors.Is(failures[0], broken) {
		t.Errorf("notified of %v", failures)
	}
}

func TestASeriesThatDoesNotFitItsInstrumentIsReported(t *testing.T) {
	one, kind := 1.0, dto.MetricType_COUNTER
	family := func(labels ...string) *dto.MetricFamily {
		name := "things_total"
		m := &dto.Metric{Counter: &dto.Counter{Value: &one}}
		for i := range labels {
			m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i]})
		}
		return &dto.MetricFamily{Name: &name, Type: &kind, Metric: []*dto.Metric{m}}
	}
	var failure error
	f := NewProducer(func() ([]*dto.MetricFamily, error) {
		return []*dto.MetricFamily{family("a"), family("a", "b")}, nil
	}, func(err error) { failure = err })
	if got := values(f.Read()); len(got) != 1 || got["things_total a=a"] != 1 {
		t.Errorf("metrics %v", got)
	}
	if failure == nil || !strings.HasPrefix(failure.Error(), "adding things_total to the registry: ") {
		t.Errorf("notified of %v", failure)
	}
}

func TestARemovedSeriesKeepsItsLastValue(t *testing.T) {
	s := newSources()
	f := NewProducer(s.registry.Gather, nil)
	s.requests.WithLabelValues("served").Add(3)
	f.Read()
	s.requests.Reset()
	if got := values(f.Read()); got["queuegate_request_outcomes_total outcome=served"] != 3 {
		t.Errorf("metrics %v", got)
	}
}

func TestLabelsWithEqualPrefixesAreDistinguished(t *testing.T) {
	registry := prometheus.NewRegistry()
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "things_total"}, []string{"a", "b"})
	registry.MustRegister(counts)
	counts.WithLabelValues("x", "yz").Add(1)
	counts.WithLabelValues("xy", "z").Add(2)
	counts.WithLabelValues("", "xyz").Add(3)
	got := values(NewProducer(registry.Gather, nil).Read())
	if len(got) != 3 || got["things_total a=x b=yz"] != 1 || got["things_total a=xy b=z"] != 2 || got["things_total a= b=xyz"] != 3 {
		t.Errorf("metrics %v", got)
	}
}
