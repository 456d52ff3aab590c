// Package push sends the metrics that Prometheus gathers to an OTLP collector at an
// interval.
//
// It does not affect the request path, because metrics are read only when they are
// sent. All metrics are totals, so the message after a lost one has all values.
package push
