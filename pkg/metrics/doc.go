// Package metrics counts requests and exports metrics: to Knative's autoscaler
// (Counting, Stat) and to Prometheus (Requests, Collector).
//
// On the request path the package performs only atomic additions: no label look-ups, no
// allocations, no timers, and at most one lock per second. A window ends when the next
// event is counted or a value is read. Everything else is computed at a scrape.
//
// Each metric of the page is one row in rows.go. The package depends on the types of
// pkg/gate, but not on the engines or the probes.
package metrics
