// Package census ties the gate's metrics and spans to OpenCensus. It is for
// programs that embed the gate's packages and have exporters of OpenCensus:
//
//	metricproducer.GlobalManager().AddProducer(census.NewProducer(registry.Gather, nil))
//	tracing.New(tracing.Config{SamplingRate: 0.1, Exporter: census.Export(exporter)})
//
// Histograms and summaries are not among the metrics: OpenCensus has no derived
// instruments for them. Nor is target_info, which is a resource.
//
// The gate's own binary does without this package, whose imports compile
// regular expressions at every start.
package census
