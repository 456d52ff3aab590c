package census

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"go.opencensus.io/metric"
	"go.opencensus.io/metric/metricdata"

	"github.com/queuegate/queuegate/pkg/metrics/push/names"
)

// Gather reads all metrics, such as (*prometheus.Registry).Gather. It may return both
// metrics and an error.
type Gather func() ([]*dto.MetricFamily, error)

// Producer implements metricproducer.Producer. It has a derived instrument for each
// counter and gauge, under its OTLP name. It may be read concurrently.
//
// A series that is no longer gathered keeps its last value.
type Producer struct {
	gather   Gather
	failed   func(error)
	registry *metric.Registry

	mu          sync.Mutex // guards the fields below
	instruments map[string]instrument
	values      map[string]float64 // last gathered values, by name and labels
}

// instrument adds a series to a derived gauge or cumulative. value returns the current
// value of the series.
type instrument func(value func() float64, labels ...metricdata.LabelValue) error

// NewProducer returns a Producer of the metrics that gather returns. If gather reports
// an error, or if a metric cannot be added, Read calls failed with the error. The
// parameter failed may be nil.
func NewProducer(gather Gather, failed func(error)) *Producer {
	return &Producer{
		gather: gather, failed: failed, registry: metric.NewRegistry(),
		instruments: map[string]instrument{}, values: map[string]float64{},
	}
}

// Read gathers the metrics and returns all instruments, sorted by name.
func (p *Producer) Read() []*metricdata.Metric {
	if err := p.refresh(); err != nil && p.failed != nil {
		p.failed(err)
	}
	// Do not hold p.mu here: the registry calls the value functions of all series, and
	// these functions lock p.mu.
	read := p.registry.Read()
	slices.SortFunc(read, func(a, b *metricdata.Metric) int {
		return cmp.Compare(a.Descriptor.Name, b.Descriptor.Name)
	})
	return read
}

func (p *Producer) refresh() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	families, err := p.gather()
	if err != nil {
		errs = append(errs, fmt.Errorf("gathering metrics: %w", err))
	}
	for _, family := range families {
		name := family.GetName()
		switch family.GetType() {
		case dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_UNTYPED:
			if name == names.Resource {
				continue
			}
			for _, m := range family.Metric {
				if err := p.set(family, m); err != nil {
					errs = append(errs, fmt.Errorf("adding %s to the registry: %w", name, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// set stores the value of a series. It registers new series.
func (p *Producer) set(family *dto.MetricFamily, m *dto.Metric) error {
	key, labels := seriesKey(family.GetName(), m.Label)
	_, known := p.values[key]
	p.values[key] = number(m)
	if known {
		return nil
	}
	add, err := p.instrument(family, m.Label)
	if err == nil {
		err = add(func() float64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.values[key]
		}, labels...)
	}
	if err != nil {
		delete(p.values, key)
	}
	return err
}

func (p *Producer) instrument(family *dto.MetricFamily, labels []*dto.LabelPair) (instrument, error) {
	name := family.GetName()
	if add := p.instruments[name]; add != nil {
		return add, nil
	}
	options := []metric.Options{
		metric.WithDescription(family.GetHelp()), metric.WithUnit(metricdata.Unit(names.Unit(name))),
		metric.WithLabelKeys(labelKeys(labels)...),
	}
	var add instrument
	if family.GetType() == dto.MetricType_COUNTER {
		c, err := p.registry.AddFloat64DerivedCumulative(names.Metric(name), options...)
		if err != nil {
			return nil, err
		}
		add = c.UpsertEntry
	} else {
		g, err := p.registry.AddFloat64DerivedGauge(names.Metric(name), options...)
		if err != nil {
			return nil, err
		}
		add = g.UpsertEntry
	}
	p.instruments[name] = add
	return add, nil
}

func number(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return m.Untyped.GetValue()
}

// maxLabelBytes is the maximum length of a label value. OpenCensus stores the length
// plus 1 in one byte, without a check for overflow.
const maxLabelBytes = 254

func seriesKey(name string, pairs []*dto.LabelPair) (string, []metricdata.LabelValue) {
	var key strings.Builder
	key.WriteString(name)
	labels := make([]metricdata.LabelValue, len(pairs))
	for i, p := range pairs {
		value := clip(p.GetValue())
		labels[i] = metricdata.NewLabelValue(value)
		key.WriteByte(0xff) // separator: UTF-8 never contains this byte
		key.WriteString(value)
	}
	return key.String(), labels
}

func clip(value string) string {
	if len(value) <= maxLabelBytes {
		return value
	}
	end := maxLabelBytes
	for end > 0 && !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}

func labelKeys(pairs []*dto.LabelPair) []string {
	keys := make([]string, len(pairs))
	for i, p := range pairs {
		keys[i] = names.Attribute(p.GetName())
	}
	return keys
}
