// Package statuspage is a page for people that shows live what one gate does:
// its state, load and latency of the last five minutes, the readiness of the
// containers, the last failures, and the configuration.
//
// History, Errors and Timeline collect; a Page shows what they hold. The request
// path pays one atomic load for each beginning and end, and a copy for each
// failure. A sampler wakes up once a second, only while requests come or a page
// is open; without either there is no goroutine and no timer.
//
// The page is for loopback: every client that reaches it sees everything. It
// answers only to the names of the loopback address, so that no website can have
// a browser read it through a name of its own.
package statuspage
