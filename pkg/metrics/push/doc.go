// Package push sends the metrics that Prometheus gathers to an OTLP collector
// at an interval.
//
// The request path pays nothing: metrics are read when they are sent. What is
// lost on the way comes with the next message, since all metrics are totals.
package push
