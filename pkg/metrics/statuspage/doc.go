// Package statuspage is a web page that shows live what a gate does: its state, load
// and latency of the last five minutes, the readiness of the containers, the last
// failures, and the configuration.
//
// History, Errors and Timeline collect data; a Page shows it. The request path costs
// one atomic load for each begin and end, and a copy for each failure. A sampler runs
// once a second, only while there are requests or a page is open; otherwise there is no
// goroutine and no timer.
//
// The page is for loopback: each client that can connect sees everything. It responds
// only to the host names of loopback, so that no website can make a browser read it
// through a host name of its own (DNS rebinding).
package statuspage
