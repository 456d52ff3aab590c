package push

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

var _ metricproducer.Producer = (*Figures)(nil)

// sources are figures that a test changes.
type sources struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	depth    prometheus.Gauge
	duration *prometheus.HistogramVec
	took     prometheus.Summary
}

func newSources() *sources {
	s := &sources{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queuegate_request_outcomes_total", Help: "By outcome."}, []string{"outcome"}),
		depth:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "kn_serving_queue_depth", Help: "Waiting."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kn_serving_invocation_duration_seconds", Help: "How long.", Buckets: []float64{0.5, 1, 2}},
			[]string{"http_response_status_code"}),
		took: prometheus.NewSummary(prometheus.SummaryOpts{Name: "took_seconds", Help: "A summary.", Objectives: map[float64]float64{0.5: 0.1}}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "target_info", Help: "Who."})
	s.registry.MustRegister(s.requests, s.depth, s.duration, s.took, info)
	return s
}

// values are what a registry shows, by name and labels.
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

func TestCountersAndGaugesAreDerivedInstruments(t *testing.T) {
	s := newSources()
	f := NewFigures(s.registry.Gather)
	s.requests.WithLabelValues("served").Add(3)
	s.depth.Set(7)
	read := f.Read()
	if got := values(read); len(got) != 2 || got["queuegate_request_outcomes_total outcome=served"] != 3 || got["kn.serving.queue.depth"] != 7 {
		t.Fatalf("figures %v", got)
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
		t.Errorf("figures %v", got)
	}
}

func TestFiguresMayBeReadByMany(t *testing.T) {
	s := newSources()
	f := NewFigures(s.registry.Gather)
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
		t.Errorf("figures %v", got)
	}
}

func TestLongLabelsAreCutNotMixedUp(t *testing.T) {
	s := newSources()
	for _, n := range []int{1, 254, 255, 256, 300, 511, 512} {
		s.requests.WithLabelValues(strings.Repeat("x", n)).Inc()
		s.requests.WithLabelValues(strings.Repeat("é", n)).Inc()
	}
	got := values(NewFigures(s.registry.Gather).Read())
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

func TestWhatCanBeGatheredIsShownWithAnError(t *testing.T) {
	s, broken := newSources(), errors.New("broken")
	s.depth.Set(1)
	f := NewFigures(func() ([]*dto.MetricFamily, error) {
		families, _ := s.registry.Gather()
		return families, broken
	})
	read, histograms, err := f.read()
	if !errors.Is(err, broken) || len(read) != 1 || len(histograms) != 1 {
		t.Errorf("%d instruments, %d histograms, %v", len(read), len(histograms), err)
	}
}

func TestLabelsAreToldApartByTheirEnds(t *testing.T) {
	registry := prometheus.NewRegistry()
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "things_total"}, []string{"a", "b"})
	registry.MustRegister(counts)
	counts.WithLabelValues("x", "yz").Add(1)
	counts.WithLabelValues("xy", "z").Add(2)
	counts.WithLabelValues("", "xyz").Add(3)
	got := values(NewFigures(registry.Gather).Read())
	if len(got) != 3 || got["things_total a=x b=yz"] != 1 || got["things_total a=xy b=z"] != 2 || got["things_total a= b=xyz"] != 3 {
		t.Errorf("figures %v", got)
	}
}
