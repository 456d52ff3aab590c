// Package census connects the gate's metrics and spans to OpenCensus. It is for
// programs that embed the gate's packages and use OpenCensus exporters:
//
//	metricproducer.GlobalManager().AddProducer(census.NewProducer(registry.Gather, nil))
//	tracing.New(tracing.Config{SamplingRate: 0.1, Exporter: census.Export(exporter)})
//
// Histograms and summaries are omitted, because OpenCensus has no derived instruments
// for them, and target_info, because it is a resource.
//
// The gate's own binary does not contain this package, whose imports compile regular
// expressions at every start.
package census
