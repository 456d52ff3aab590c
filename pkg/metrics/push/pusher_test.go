package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
	"github.com/queuegate/queuegate/pkg/metrics/push/names"
)

var someone = otlp.Resource{Namespace: "default", Service: "shop", Revision: "shop-00001", Pod: "shop-00001-x", Version: "v1.2.3"}

func start(t *testing.T, c Config) *Pusher {
	t.Helper()
	c.Resource = someone
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// next returns the metrics of the next message by name.
func next(t *testing.T, c *otlptest.Collector) map[string]*metricspb.Metric {
	t.Helper()
	var request collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(c.Next(t).Body, &request); err != nil {
		t.Fatal(err)
	}
	of := request.ResourceMetrics[0]
	if got := textOf(of.Resource.Attributes); !strings.Contains(got, "service.name=shop ") || !strings.Contains(got, "kn.revision.name=shop-00001 ") {
		t.Errorf("resource %s", got)
	}
	all := map[string]*metricspb.Metric{}
	for _, scope := range of.ScopeMetrics {
		for _, m := range scope.Metrics {
			if all[m.Name] != nil {
				t.Errorf("%s is there twice", m.Name)
			}
			all[m.Name] = m
			want := "github.com/queuegate/queuegate"
			switch {
			case strings.HasPrefix(m.Name, "http.") && m.Name != "http.server.active_requests":
				want = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
			case m.Name == "kn.serving.invocation.duration":
				want = "knative.dev/serving/pkg/queue"
			}
			if scope.Scope.Name != want {
				t.Errorf("%s is of scope %s, want %s", m.Name, scope.Scope.Name, want)
			}
		}
	}
	return all
}

func textOf(attributes []*common.KeyValue) string {
	var b strings.Builder
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			fmt.Fprintf(&b, "%s=%s ", a.Key, v.StringValue)
		case *common.AnyValue_IntValue:
			fmt.Fprintf(&b, "%s=%d ", a.Key, v.IntValue)
		}
	}
	return b.String()
}

func TestACollectorGetsTheMetricsAtAnInterval(t *testing.T) {
	for protocol, c := range map[string]*otlptest.Collector{"http/protobuf": otlptest.HTTP(t, nil), "grpc": otlptest.GRPC(t, nil)} {
		s := newSources()
		s.requests.WithLabelValues("served").Add(3)
		s.depth.Set(7)
		for _, v := range []float64{0.5, 0.6, 1.5, 9} {
			s.duration.WithLabelValues("200", "knative.dev/serving/pkg/queue").(prometheus.ExemplarObserver).ObserveWithExemplar(v, prometheus.Labels{
				"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "x": "y"})
		}
		s.took.Observe(2)
		began := time.Now()
		p := start(t, Config{Protocol: protocol, Endpoint: c.URL, Interval: time.Millisecond, Gather: s.registry.Gather, Failed: func(err error) { t.Error(err) }})
		for range 2 {
			got := next(t, c)
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"kn.serving.invocation.duration", "kn.serving.queue.depth", "queuegate_request_outcomes_total", "took_seconds"}) {
				t.Fatalf("%s: %q", protocol, names)
			}
			sum := got["queuegate_request_outcomes_total"].GetSum()
			if sum == nil || !sum.IsMonotonic || sum.AggregationTemporality != cumulative || sum.DataPoints[0].GetAsDouble() != 3 || textOf(sum.DataPoints[0].Attributes) != "outcome=served " {
				t.Errorf("%s: %v", protocol, sum)
			}
			if from, to := sum.DataPoints[0].StartTimeUnixNano, sum.DataPoints[0].TimeUnixNano; from < uint64(began.UnixNano()) || to <= from {
				t.Errorf("%s: counted from %d to %d", protocol, from, to)
			}
			if g := got["kn.serving.queue.depth"].GetGauge(); g == nil || g.DataPoints[0].GetAsDouble() != 7 {
				t.Errorf("%s: %v", protocol, g)
			}
			h := got["kn.serving.invocation.duration"]
			point := h.GetHistogram().DataPoints[0]
			if h.Unit != "s" || h.GetHistogram().AggregationTemporality != cumulative || point.Count != 4 || point.GetSum() != 11.6 ||
				!slices.Equal(point.ExplicitBounds, []float64{0.5, 1, 2}) || !slices.Equal(point.BucketCounts, []uint64{1, 1, 1, 1}) ||
				textOf(point.Attributes) != "http.response.status_code=200 " {
				t.Errorf("%s: %v", protocol, h)
			}
			if len(point.Exemplars) != 4 || len(point.Exemplars[0].TraceId) != 16 || len(point.Exemplars[0].SpanId) != 8 || textOf(point.Exemplars[0].FilteredAttributes) != "x=y " || point.Exemplars[0].TimeUnixNano == 0 {
				t.Errorf("%s: exemplars %v", protocol, point.Exemplars)
			}
			q := got["took_seconds"].GetSummary().DataPoints[0]
			if q.Count != 1 || q.Sum != 2 || len(q.QuantileValues) != 1 || q.QuantileValues[0].Value != 2 {
				t.Errorf("%s: %v", protocol, q)
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseSendsTheMetricsOneLastTime(t *testing.T) {
	c := otlptest.GRPC(t, nil)
	s := newSources()
	p := start(t, Config{Protocol: "grpc", Endpoint: c.URL, Gather: s.registry.Gather})
	s.depth.Set(9)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := next(t, c)["kn.serving.queue.depth"].GetGauge().DataPoints[0].GetAsDouble(); got != 9 {
		t.Errorf("queue depth %v", got)
	}
	if len(c.Messages) != 0 {
		t.Error("more than one message within a minute")
	}
	if err := errors.Join(p.Close(t.Context()), (*Pusher)(nil).Close(t.Context())); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseDoesNotWaitForAHangingCollector(t *testing.T) {
	c := otlptest.HTTP(t, otlptest.Hang)
	failed := make(chan error, 10)
	p := start(t, Config{Protocol: "http/protobuf", Endpoint: c.URL, Interval: time.Millisecond, Gather: newSources().registry.Gather, Failed: func(err error) { failed <- err }})
	c.Next(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	<-p.done
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("notified of %v", err)
	}
}

func TestARejectionIsReported(t *testing.T) {
	partial, err := proto.Marshal(&collector.ExportMetricsServiceResponse{
		PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 2, ErrorMessage: "no"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for want, response := range map[string]otlptest.Response{
		"rejected 2 points: no": {Body: partial}, "gRPC status 14": {GRPCStatus: "14"},
	} {
		c := otlptest.GRPC(t, func(context.Context, otlptest.Message) otlptest.Response { return response })
		var failure error
		p := start(t, Config{Protocol: "grpc", Endpoint: c.URL, Gather: newSources().registry.Gather, Failed: func(err error) { failure = err }})
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if failure == nil || !strings.Contains(failure.Error(), want) || len(c.Messages) != 1 {
			t.Errorf("notified of %v, %d messages", failure, len(c.Messages))
		}
	}
}

func TestAnInvalidDestinationIsRejected(t *testing.T) {
	for want, c := range map[string]Config{
		`endpoint ""`: {Protocol: "grpc"}, `protocol "prometheus"`: {Protocol: "prometheus", Endpoint: "http://collector"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAllMetricsOfTheGateArePushed(t *testing.T) {
	requests := metrics.NewRequests()
	requests.Observe(&gate.Record{Status: 200, Forwarded: 1, Ended: time.Millisecond}, gate.TraceID{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(metrics.CollectorConfig{
		Names: metrics.Both, Requests: requests, Admission: func() gate.AdmissionStats { return gate.AdmissionStats{} },
		Upstream: func() gate.UpstreamStats { return gate.UpstreamStats{} },
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want, renamed := map[string]string{}, 0
	for _, f := range families {
		if f.GetName() == names.Resource {
			continue
		}
		want[names.Metric(f.GetName())] = f.GetType().String()
		if names.Metric(f.GetName()) != f.GetName() {
			renamed++
		}
	}
	if renamed != 7 {
		t.Errorf("%d metrics of the gate have names of their own over OTLP, want 7", renamed)
	}
	c := otlptest.HTTP(t, nil)
	p := start(t, Config{Protocol: "http/protobuf", Endpoint: c.URL, Gather: registry.Gather, Failed: func(err error) { t.Error(err) }})
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, m := range next(t, c) {
		switch m.Data.(type) {
		case *metricspb.Metric_Sum:
			got[name] = "COUNTER"
		case *metricspb.Metric_Gauge:
			got[name] = "GAUGE"
		case *metricspb.Metric_Histogram:
			got[name] = "HISTOGRAM"
		}
	}
	if !reflect.DeepEqual(got, want) || len(got) < 20 {
		t.Errorf("pushed %v, want %v", got, want)
	}
}
