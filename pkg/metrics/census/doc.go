// Package census connects the gate's metrics and spans to OpenCensus. It is for
// programs that embed the gate's packages and use OpenCensus exporters:
//
//	metricproducer.GlobalManager().AddProducer(census.NewProducer(registry.Gather, nil))
//	tracing.New(tracing.Config{SamplingRate: 0.1, Exporter: census.Export(exporter)})
//
// The Producer omits histograms and summaries, because OpenCensus has no derived
// instruments for them. It also omits target_info, because in OpenCensus this
// information is a resource.
//
// The gate's own binary does not contain this package: its imports would compile
// regular expressions at each start.
package census
