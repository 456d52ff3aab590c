// Package census connects the gate's metrics and spans to OpenCensus. It is for
// programs that embed the gate's packages and use OpenCensus exporters:
//
//	metricproducer.GlobalManager().AddProducer(census.NewProducer(registry.Gather, nil))
//	tracing.New(tracing.Config{SamplingRate: 0.1, Exporter: census.Export(exporter)})
//
// The Producer omits histograms and summaries, which have no derived instruments in
// OpenCensus, and target_info.
//
// The gate's binary does not contain this package, whose imports compile regular
// expressions at each start.
package census
