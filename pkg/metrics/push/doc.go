// Package push sends the metrics that Prometheus gathers to an OTLP collector at an
// interval.
//
// Metrics are read only when they are sent. All metrics are totals, so a lost message
// needs no retry.
package push
