package push

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
)

// Gather reads all figures; (*prometheus.Registry).Gather is one. With an error
// it may still return those that it could read.
type Gather func() ([]*dto.MetricFamily, error)

// Figures keeps an OpenCensus registry with a derived instrument for each
// counter and gauge. OpenCensus knows it as a metricproducer.Producer.
// Histograms are not in the registry, which has none that are derived.
//
// A series that has been seen once stays, with its last value.
type Figures struct {
	gather   Gather
	registry *metric.Registry

	mu          sync.Mutex // guards the rest
	instruments map[string]instrument
	values      map[string]float64 // by name and labels, as of the last refresh
	histograms  []*dto.MetricFamily
	errs        []error
}

// instrument adds a series to a derived gauge or cumulative.
type instrument func(value func() float64, labels ...metricdata.LabelValue) error

// NewFigures reads nothing yet.
func NewFigures(gather Gather) *Figures {
	return &Figures{
		gather: gather, registry: metric.NewRegistry(),
		instruments: map[string]instrument{}, values: map[string]float64{},
	}
}

// Read brings the registry up to date and reads it, sorted by name.
func (f *Figures) Read() []*metricdata.Metric {
	read, _, _ := f.read()
	return read
}

// read returns the histograms and summaries as they were gathered, and
// everything that went wrong.
func (f *Figures) read() ([]*metricdata.Metric, []*dto.MetricFamily, error) {
	f.mu.Lock()
	f.refresh()
	histograms, err := f.histograms, errors.Join(f.errs...)
	f.mu.Unlock() // the callbacks take it
	read := f.registry.Read()
	slices.SortFunc(read, func(a, b *metricdata.Metric) int {
		return cmp.Compare(a.Descriptor.Name, b.Descriptor.Name)
	})
	return read, histograms, err
}

func (f *Figures) refresh() {
	f.histograms, f.errs = nil, nil
	families, err := f.gather()
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("gathering figures: %w", err))
	}
	for _, family := range families {
		name := family.GetName()
		switch family.GetType() {
		case dto.MetricType_HISTOGRAM, dto.MetricType_SUMMARY:
			f.histograms = append(f.histograms, family)
		case dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_UNTYPED:
			if name == resourceFamily {
				continue
			}
			for _, m := range family.Metric {
				if err := f.set(family, m); err != nil {
					f.errs = append(f.errs, fmt.Errorf("adding %s to the registry: %w", name, err))
				}
			}
		}
	}
}

// set stores the value of a series, and makes it known when it is new.
func (f *Figures) set(family *dto.MetricFamily, m *dto.Metric) error {
	key, labels := seriesKey(family.GetName(), m.Label)
	_, known := f.values[key]
	f.values[key] = number(m)
	if known {
		return nil
	}
	add, err := f.instrument(family, m.Label)
	if err == nil {
		err = add(func() float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.values[key]
		}, labels...)
	}
	if err != nil {
		delete(f.values, key)
	}
	return err
}

func (f *Figures) instrument(family *dto.MetricFamily, labels []*dto.LabelPair) (instrument, error) {
	name := family.GetName()
	if add := f.instruments[name]; add != nil {
		return add, nil
	}
	options := []metric.Options{
		metric.WithDescription(family.GetHelp()), metric.WithUnit(metricdata.Unit(unitOf(name))), metric.WithLabelKeys(labelKeys(labels)...),
	}
	var add instrument
	if family.GetType() == dto.MetricType_COUNTER {
		c, err := f.registry.AddFloat64DerivedCumulative(nameOf(name), options...)
		if err != nil {
			return nil, err
		}
		add = c.UpsertEntry
	} else {
		g, err := f.registry.AddFloat64DerivedGauge(nameOf(name), options...)
		if err != nil {
			return nil, err
		}
		add = g.UpsertEntry
	}
	f.instruments[name] = add
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

// maxLabelBytes is the longest value of a label that OpenCensus can hold: it
// keeps lengths modulo 256, its own flag included.
const maxLabelBytes = 254

func seriesKey(name string, pairs []*dto.LabelPair) (string, []metricdata.LabelValue) {
	var key strings.Builder
	key.WriteString(name)
	labels := make([]metricdata.LabelValue, len(pairs))
	for i, p := range pairs {
		value := clip(p.GetValue())
		labels[i] = metricdata.NewLabelValue(value)
		key.WriteByte(0xff) // in no UTF-8
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
		keys[i] = keyOf(p.GetName())
	}
	return keys
}
