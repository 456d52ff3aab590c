package push

import (
	"math"
	runtimemetrics "runtime/metrics"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// goRuntimeScope names the library that provides the same metrics in Knative's
// queue-proxy.
const goRuntimeScope = "go.opentelemetry.io/contrib/instrumentation/runtime"

// Names of the metrics in runtime/metrics from which go.memory.used is calculated.
const (
	totalBytes    = "/memory/classes/total:bytes"
	releasedBytes = "/memory/classes/heap/released:bytes"
	stackBytes    = "/memory/classes/heap/stacks:bytes"
)

// goMetrics are metrics of the Go runtime, with the names, units and descriptions of
// OpenTelemetry's semantic conventions 1.43.
var goMetrics = []struct {
	name, unit, description string
	isMonotonic             bool
	// source is the name of the metric in runtime/metrics. It is empty for
	// go.memory.used, which is calculated from three metrics.
	source string
}{
	{"go.memory.used", "By", "Memory used by the Go runtime.", false, ""},
	{"go.memory.limit", "By", "Go runtime memory limit configured by the user, if a limit exists.", false, "/gc/gomemlimit:bytes"},
	{"go.memory.allocated", "By", "Memory allocated to the heap by the application.", true, "/gc/heap/allocs:bytes"},
	{"go.memory.allocations", "{allocation}", "Count of allocations to the heap by the application.", true, "/gc/heap/allocs:objects"},
	{"go.memory.gc.goal", "By", "Heap size target for the end of the GC cycle.", false, "/gc/heap/goal:bytes"},
	{"go.goroutine.count", "{goroutine}", "Count of live goroutines.", false, "/sched/goroutines:goroutines"},
	{"go.processor.limit", "{thread}", "The number of OS threads that can execute user-level Go code simultaneously.", false, "/sched/gomaxprocs:threads"},
	{"go.config.gogc", "%", "Heap size target percentage configured by the user, otherwise 100.", false, "/gc/gogc:percent"},
}

// goRuntime omits the memory limit if none is set.
func (s span) goRuntime() *metrics.ScopeMetrics {
	samples := []runtimemetrics.Sample{{Name: totalBytes}, {Name: releasedBytes}, {Name: stackBytes}}
	for _, m := range goMetrics {
		if m.source != "" {
			samples = append(samples, runtimemetrics.Sample{Name: m.source})
		}
	}
	runtimemetrics.Read(samples)
	values := make(map[string]int64, len(samples))
	for _, sample := range samples {
		if sample.Value.Kind() == runtimemetrics.KindUint64 {
			values[sample.Name] = int64(min(sample.Value.Uint64(), math.MaxInt64))
		}
	}
	all := &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: goRuntimeScope}}
	for _, m := range goMetrics {
		var points []*metrics.NumberDataPoint
		value, known := values[m.source]
		switch {
		case m.source == "":
			stack := values[stackBytes]
			points = []*metrics.NumberDataPoint{
				s.integer(stack, otlp.Attribute("go.memory.type", "stack")),
				s.integer(values[totalBytes]-values[releasedBytes]-stack, otlp.Attribute("go.memory.type", "other")),
			}
		case known && (m.name != "go.memory.limit" || value < math.MaxInt64):
			points = []*metrics.NumberDataPoint{s.integer(value)}
		default:
			continue
		}
		all.Metrics = append(all.Metrics, &metrics.Metric{Name: m.name, Unit: m.unit, Description: m.description, Data: &metrics.Metric_Sum{
			Sum: &metrics.Sum{DataPoints: points, AggregationTemporality: cumulative, IsMonotonic: m.isMonotonic},
		}})
	}
	return all
}

func (s span) integer(value int64, attributes ...*common.KeyValue) *metrics.NumberDataPoint {
	return &metrics.NumberDataPoint{
		StartTimeUnixNano: s.start, TimeUnixNano: s.now, Attributes: attributes, Value: &metrics.NumberDataPoint_AsInt{AsInt: value},
	}
}
