package push

import (
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

func TestGoRuntimeMetricsMatchThoseOfKnative(t *testing.T) {
	limit := debug.SetMemoryLimit(1 << 40)
	defer debug.SetMemoryLimit(limit)
	gogc := debug.SetGCPercent(123)
	defer debug.SetGCPercent(gogc)
	c := otlptest.HTTP(t, nil)
	p := start(t, Config{Protocol: "http/protobuf", Endpoint: c.URL, Gather: prometheus.NewRegistry().Gather, GoRuntime: true, Failed: func(err error) { t.Error(err) }})
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var request collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(c.Next(t).Body, &request); err != nil {
		t.Fatal(err)
	}
	got := map[string]*metricspb.Metric{}
	for _, scope := range request.ResourceMetrics[0].ScopeMetrics {
		if scope.Scope.Name == "go.opentelemetry.io/contrib/instrumentation/runtime" {
			for _, m := range scope.Metrics {
				got[m.Name] = m
			}
		}
	}
	want := map[string]struct {
		unit        string
		isMonotonic bool
		least, most int64
	}{
		"go.memory.used": {"By", false, 1, 1 << 40}, "go.memory.limit": {"By", false, 1 << 40, 1 << 40},
		"go.memory.allocated": {"By", true, 1, 1 << 50}, "go.memory.allocations": {"{allocation}", true, 1, 1 << 50},
		"go.memory.gc.goal": {"By", false, 1, 1 << 40}, "go.goroutine.count": {"{goroutine}", false, 1, 1 << 20},
		"go.processor.limit": {"{thread}", false, int64(runtime.GOMAXPROCS(0)), int64(runtime.GOMAXPROCS(0))}, "go.config.gogc": {"%", false, 123, 123},
	}
	if names, wanted := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(names, wanted) {
		t.Fatalf("got %q, want %q", names, wanted)
	}
	for name, w := range want {
		m := got[name]
		sum := m.GetSum()
		if m.Unit != w.unit || m.Description == "" || sum == nil || sum.IsMonotonic != w.isMonotonic || sum.AggregationTemporality != cumulative {
			t.Fatalf("%v", m)
		}
		for _, point := range sum.DataPoints {
			if v := point.GetAsInt(); v < w.least || v > w.most || point.StartTimeUnixNano == 0 || point.TimeUnixNano < point.StartTimeUnixNano {
				t.Errorf("%s: %v", name, point)
			}
		}
	}
	used := got["go.memory.used"].GetSum().DataPoints
	if len(used) != 2 || textOf(used[0].Attributes) != "go.memory.type=stack " || textOf(used[1].Attributes) != "go.memory.type=other " {
		t.Errorf("go.memory.used: %v", used)
	}
}

func TestAMissingMemoryLimitIsOmitted(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1<<63 - 1))
	for _, m := range (span{}).goRuntime().Metrics {
		if m.Name == "go.memory.limit" {
			t.Errorf("%v", m)
		}
	}
}
