// Package census shows figures that Prometheus gathers as OpenCensus metrics.
// It is for programs that embed the gate's packages and have exporters of
// OpenCensus:
//
//	metricproducer.GlobalManager().AddProducer(census.NewFigures(registry.Gather, nil))
//
// Histograms and summaries are not in it: OpenCensus has no derived
// instruments for them. Nor is target_info, which is a resource.
//
// The gate's own binary does without this package, whose imports compile a
// regular expression at every start.
package census
