// Package statuspage is a live web page of a gate: its state, load and latency of the
// last five minutes, the readiness of the containers, the last failures, and the
// configuration.
//
// History, Errors and Timeline collect data; a Page shows it. The request path costs
// one atomic load for each begin and end, and a copy for each failure. A goroutine
// samples once a second while there are requests or viewers.
//
// The page has no authentication: serve it on loopback only. It responds only to host
// names of loopback, to prevent DNS rebinding.
package statuspage
