package push

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/push/names"
)

// span is the period of a message.
type span struct{ start, now uint64 } // in ns since 1970

func spanOf(start, now time.Time) span {
	return span{uint64(start.UnixNano()), uint64(now.UnixNano())}
}

const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// message converts a metric family. It returns nil for a type that is not sent.
func (s span) message(family *dto.MetricFamily) *metrics.Metric {
	name := family.GetName()
	if name == names.Resource || len(family.Metric) == 0 {
		return nil
	}
	out := &metrics.Metric{
		Name: otlp.Text(names.Metric(name)), Description: otlp.Text(family.GetHelp()), Unit: names.Unit(name),
	}
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		out.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{
			DataPoints: points(family, s.counter), AggregationTemporality: cumulative, IsMonotonic: true,
		}}
	case dto.MetricType_GAUGE, dto.MetricType_UNTYPED:
		out.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points(family, s.number)}}
	case dto.MetricType_HISTOGRAM:
		out.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{
			DataPoints: points(family, s.histogram), AggregationTemporality: cumulative,
		}}
	case dto.MetricType_SUMMARY:
		out.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{DataPoints: points(family, s.summary)}}
	default:
		return nil
	}
	return out
}

func points[P any](family *dto.MetricFamily, point func(*dto.Metric) *P) []*P {
	all := make([]*P, len(family.Metric))
	for i, m := range family.Metric {
		all[i] = point(m)
	}
	return all
}

func (s span) counter(m *dto.Metric) *metrics.NumberDataPoint {
	p := s.number(m)
	p.StartTimeUnixNano = s.start
	return p
}

// number converts a counter, gauge or untyped metric.
func (s span) number(m *dto.Metric) *metrics.NumberDataPoint {
	value := m.Counter.GetValue() + m.Gauge.GetValue() + m.Untyped.GetValue()
	return &metrics.NumberDataPoint{
		TimeUnixNano: s.now, Attributes: attributes(m.Label), Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value},
	}
}

// histogram converts Prometheus' cumulative buckets into one count per bucket. In both
// formats a bucket includes its upper bound.
func (s span) histogram(m *dto.Metric) *metrics.HistogramDataPoint {
	h := m.Histogram
	p := &metrics.HistogramDataPoint{
		StartTimeUnixNano: s.start, TimeUnixNano: s.now, Attributes: attributes(m.Label),
		Count: h.GetSampleCount(), Sum: h.SampleSum,
	}
	below := uint64(0)
	for _, b := range h.Bucket {
		if e := exemplar(b.Exemplar); e != nil {
			p.Exemplars = append(p.Exemplars, e)
		}
		if math.IsInf(b.GetUpperBound(), 1) {
			continue // the bucket +Inf
		}
		p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
		p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, p.Count-below)
	return p
}

func (s span) summary(m *dto.Metric) *metrics.SummaryDataPoint {
	p := &metrics.SummaryDataPoint{
		StartTimeUnixNano: s.start, TimeUnixNano: s.now, Attributes: attributes(m.Label),
		Count: m.Summary.GetSampleCount(), Sum: m.Summary.GetSampleSum(),
	}
	for _, q := range m.Summary.Quantile {
		p.QuantileValues = append(p.QuantileValues, &metrics.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
	}
	return p
}

// exemplar converts an exemplar. The trace id and the span id come from the labels
// trace_id and span_id. All other labels become attributes.
func exemplar(e *dto.Exemplar) *metrics.Exemplar {
	if e == nil {
		return nil
	}
	out := &metrics.Exemplar{Value: &metrics.Exemplar_AsDouble{AsDouble: e.GetValue()}}
	if e.Timestamp != nil {
		out.TimeUnixNano = uint64(e.Timestamp.AsTime().UnixNano())
	}
	for _, l := range e.Label {
		id, err := hex.DecodeString(l.GetValue())
		switch {
		case l.GetName() == "trace_id" && err == nil && len(id) == 16:
			out.TraceId = id
		case l.GetName() == "span_id" && err == nil && len(id) == 8:
			out.SpanId = id
		default:
			out.FilteredAttributes = append(out.FilteredAttributes, otlp.Attribute(l.GetName(), l.GetValue()))
		}
	}
	return out
}

func attributes(pairs []*dto.LabelPair) []*common.KeyValue {
	out := make([]*common.KeyValue, 0, len(pairs))
	for _, p := range pairs {
		if p.GetName() != names.Scope {
			out = append(out, attribute(names.Attribute(p.GetName()), p.GetValue()))
		}
	}
	return out
}

// scope returns the name of a family's instrumentation scope, from the label
// names.Scope. The result is "" if the family belongs to the gate's own scope.
func scope(family *dto.MetricFamily) string {
	for _, p := range family.Metric[0].Label {
		if p.GetName() == names.Scope {
			return p.GetValue()
		}
	}
	return ""
}

// attribute returns a numeric value if the semantic conventions require it.
func attribute(key, value string) *common.KeyValue {
	if key == names.StatusCode {
		if code, err := strconv.ParseInt(value, 10, 64); err == nil {
			return otlp.Attribute(key, code)
		}
	}
	return otlp.Attribute(key, value)
}
