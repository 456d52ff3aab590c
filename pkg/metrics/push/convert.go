package push

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opencensus.io/metric/metricdata"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// span is what all points of a message are about: totals since a start.
type span struct{ start, now uint64 } // ns since 1970

func spanOf(start, now time.Time) span {
	return span{uint64(start.UnixNano()), uint64(now.UnixNano())}
}

const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// instrumentMessage converts an instrument of the registry; nil if it has no
// points.
func (s span) instrumentMessage(m *metricdata.Metric) *metrics.Metric {
	var points []*metrics.NumberDataPoint
	for _, series := range m.TimeSeries {
		for _, p := range series.Points {
			value, ok := p.Value.(float64)
			if !ok {
				continue
			}
			point := &metrics.NumberDataPoint{
				TimeUnixNano: s.now, Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value},
			}
			for i, key := range m.Descriptor.LabelKeys {
				point.Attributes = append(point.Attributes, attribute(key.Key, series.LabelValues[i].Value))
			}
			points = append(points, point)
		}
	}
	if len(points) == 0 {
		return nil
	}
	out := &metrics.Metric{
		Name: otlp.Text(m.Descriptor.Name), Description: otlp.Text(m.Descriptor.Description), Unit: string(m.Descriptor.Unit),
	}
	if m.Descriptor.Type == metricdata.TypeCumulativeFloat64 {
		for _, p := range points {
			p.StartTimeUnixNano = s.start
		}
		out.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: points, AggregationTemporality: cumulative, IsMonotonic: true}}
	} else {
		out.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points}}
	}
	return out
}

// familyMessage converts a family of histograms or summaries; nil if it has
// none.
func (s span) familyMessage(family *dto.MetricFamily) *metrics.Metric {
	out := &metrics.Metric{
		Name: otlp.Text(nameOf(family.GetName())), Description: otlp.Text(family.GetHelp()), Unit: unitOf(family.GetName()),
	}
	var histograms []*metrics.HistogramDataPoint
	var summaries []*metrics.SummaryDataPoint
	for _, m := range family.Metric {
		switch {
		case m.Histogram != nil:
			histograms = append(histograms, s.histogram(m))
		case m.Summary != nil:
			summaries = append(summaries, s.summary(m))
		}
	}
	switch {
	case histograms != nil:
		out.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{DataPoints: histograms, AggregationTemporality: cumulative}}
	case summaries != nil:
		out.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{DataPoints: summaries}}
	default:
		return nil
	}
	return out
}

// histogram turns Prometheus' counts up to each bound into counts between
// bounds. Both include the upper bound.
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
			continue // that is Count
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

// exemplar takes the ids out of the labels that Prometheus has them in.
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
	out := make([]*common.KeyValue, len(pairs))
	for i, p := range pairs {
		out[i] = attribute(keyOf(p.GetName()), p.GetValue())
	}
	return out
}

// attribute has a number where the semantic conventions want one.
func attribute(key, value string) *common.KeyValue {
	if key == statusKey {
		if code, err := strconv.ParseInt(value, 10, 64); err == nil {
			return otlp.Attribute(key, code)
		}
	}
	return otlp.Attribute(key, value)
}
