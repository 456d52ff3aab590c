// Package push shows figures as OpenCensus instruments and sends them to an
// OTLP collector at an interval.
//
// Everything is derived: the request path pays nothing, figures are read when
// they are sent. What is lost on the way comes with the next message, since
// all figures are totals.
package push
