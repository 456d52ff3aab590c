// Package push sends the figures that Prometheus gathers to an OTLP collector
// at an interval.
//
// The request path pays nothing: figures are read when they are sent. What is
// lost on the way comes with the next message, since all figures are totals.
package push
