// Package exchange implements the request lifecycle for all protocols. Exchange is one
// request: its states, timeouts and retries, and the relay between a Downstream and an
// Upstream, which the protocol engines implement. Gate is the state that all requests of
// the process share: configuration, admission, memory and descriptor budgets, requests
// waiting for the container to listen (ConnectQueue), and the drain (Drain).
//
// Blocking is the same lifecycle for programs that embed the gate and do their own I/O.
// Everything exported is safe for concurrent use unless it says otherwise; an Exchange
// and its sides belong to one event loop.
package exchange
