// Package push sends the metrics that Prometheus gathers to an OTLP collector at an
// interval.
//
// It does not affect the request path: metrics are read when they are sent. All metrics
// are totals, so the next message makes up for a lost one.
package push
