package push

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// convert returns the metrics of the message that a Pusher sends, as a map from name to
// metric. The Pusher starts at the Unix time 3 ns and sends the message at 5 ns. So a
// test can distinguish the two timestamps of a metric.
func convert(t *testing.T, gather Gather) (map[string]*metricspb.Metric, error) {
	t.Helper()
	p := &Pusher{cfg: Config{Gather: gather}, start: time.Unix(0, 3)}
	request, err := p.request(time.Unix(0, 5))
	if _, err := proto.Marshal(request); err != nil {
		t.Error(err)
	}
	all := map[string]*metricspb.Metric{}
	for _, of := range request.ResourceMetrics[0].ScopeMetrics {
		for _, m := range of.Metrics {
			all[m.Name] = m
		}
	}
	return all, err
}

func TestOnlyTotalsHaveAStartTime(t *testing.T) {
	s := newSources()
	s.requests.WithLabelValues("served").Inc()
	s.duration.WithLabelValues("200", "knative.dev/serving/pkg/queue").Observe(1)
	s.registry.MustRegister(prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "x"}, func() float64 { return math.Inf(1) }))
	all, err := convert(t, s.registry.Gather)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, from, to, wantFrom uint64) {
		if from != wantFrom || to != 5 {
			t.Errorf("%s is from %d to %d, want %d and 5", name, from, to, wantFrom)
		}
	}
	total := all["queuegate_request_outcomes_total"].GetSum().DataPoints[0]
	check("a counter", total.StartTimeUnixNano, total.TimeUnixNano, 3)
	histogram := all["kn.serving.invocation.duration"].GetHistogram().DataPoints[0]
	check("a histogram", histogram.StartTimeUnixNano, histogram.TimeUnixNano, 3)
	summary := all["took_seconds"].GetSummary().DataPoints[0]
	check("a summary", summary.StartTimeUnixNano, summary.TimeUnixNano, 3)
	gauge := all["kn.serving.queue.depth"].GetGauge().DataPoints[0]
	check("a gauge", gauge.StartTimeUnixNano, gauge.TimeUnixNano, 0)
	untyped := all["x"].GetGauge().DataPoints[0]
	check("an untyped metric", untyped.StartTimeUnixNano, untyped.TimeUnixNano, 0)
	if !math.IsInf(untyped.GetAsDouble(), 1) {
		t.Errorf("untyped is %v", untyped.GetAsDouble())
	}
}

func TestDescriptionsAndUnitsAreSent(t *testing.T) {
	all, err := convert(t, newSources().registry.Gather)
	if m := all["kn.serving.queue.depth"]; err != nil || m == nil || m.Description != "Waiting." || m.Unit != "{request}" {
		t.Errorf("%v, %v", m, err)
	}
	if m := all["took_seconds"]; m == nil || m.Description != "A summary." || m.Unit != "s" {
		t.Errorf("%v", m)
	}
}

func TestLongLabelsAreNotTruncated(t *testing.T) {
	s := newSources()
	for _, n := range []int{0, 254, 255, 256, 512} {
		s.requests.WithLabelValues(strings.Repeat("é", n)).Add(float64(n))
	}
	all, err := convert(t, s.registry.Gather)
	if err != nil {
		t.Fatal(err)
	}
	points := all["queuegate_request_outcomes_total"].GetSum().DataPoints
	for _, p := range points {
		if want := "outcome=" + strings.Repeat("é", int(p.GetAsDouble())) + " "; textOf(p.Attributes) != want {
			t.Errorf("%v is of %q", p.GetAsDouble(), textOf(p.Attributes))
		}
	}
	if len(points) != 5 {
		t.Errorf("%d points", len(points))
	}
}

func TestInvalidUTF8LosesNoMessage(t *testing.T) {
	name, help, label, value, one, kind := "depth", "a\xffb", "x", "\xffy", 1.0, dto.MetricType_GAUGE
	all, err := convert(t, func() ([]*dto.MetricFamily, error) {
		return []*dto.MetricFamily{{Name: &name, Help: &help, Type: &kind, Metric: []*dto.Metric{{
			Label: []*dto.LabelPair{{Name: &label, Value: &value}}, Gauge: &dto.Gauge{Value: &one},
		}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if m := all["depth"]; m.Description != "a\uFFFDb" || textOf(m.GetGauge().DataPoints[0].Attributes) != "x=\uFFFDy " {
		t.Errorf("%v", m)
	}
}

func TestGatheredMetricsAreSentDespiteAnError(t *testing.T) {
	s, broken := newSources(), errors.New("broken")
	s.duration.WithLabelValues("200", "knative.dev/serving/pkg/queue").Observe(1)
	all, err := convert(t, func() ([]*dto.MetricFamily, error) {
		families, _ := s.registry.Gather()
		return append(families, &dto.MetricFamily{Name: new(string)}), broken // a family without samples
	})
	if !errors.Is(err, broken) || len(all) != 3 {
		t.Errorf("%d metrics, %v", len(all), err)
	}
}
