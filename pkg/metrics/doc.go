// Package metrics counts requests and shows metrics: to Knative's
// autoscaler (Counting, Stat) and to Prometheus (Requests, Collector).
//
// The request path pays for atomic additions only: no label is looked up,
// nothing is allocated, no timer runs, and a lock is taken once a second at
// most. Windows roll when an event is counted or a figure read; everything else is worked
// out when a scraper asks.
//
// A metric of the page is one row in rows.go. The package uses pkg/gate's words
// (exchanges, outcomes, stats) and knows no engine and no prober.
package metrics
