// Package metrics counts requests and shows the figures: to Knative's
// autoscaler (Counting, Stat) and to Prometheus (Requests, Collector).
//
// The request path pays for atomic additions only: no label is looked up,
// nothing is allocated, no timer runs, and a lock is taken once a second at
// most. Windows roll when somebody counts or reads; everything else is worked
// out when a scraper asks.
//
// The package knows neither the gate nor its probes. It declares the small
// types that it is fed with; whoever wires it translates.
package metrics
