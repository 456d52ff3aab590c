package metrics

// Kind is the type of a metric, as Prometheus calls it.
type Kind string

// The kinds that the gate has.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric describes one metric family to scrapers and to the documentation.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string
	Labels []string
	Help   string
}
