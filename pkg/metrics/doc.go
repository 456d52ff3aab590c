// Package metrics counts requests and exports metrics: to Knative's autoscaler
// (Counting, Stat) and to Prometheus (Requests, Collector).
//
// On the request path it performs only atomic additions: no label look-ups, no
// allocations, no timers, and a lock at most once a second. Windows advance when an
// event is counted or a value is read; everything else is computed when a scraper asks.
//
// Each metric of the page is one row in rows.go. The package depends on the types of
// pkg/gate, but not on the engines or the probes.
package metrics
