package embed

import "context"

// Drain begins the shutdown, which cannot be undone. From then on, probes get 503
// "shutting down", and each response asks its client to close the connection
// (Connection: close; GOAWAY over HTTP/2). Requests, including new ones, are still
// served.
//
// Drain returns nil when no request has arrived for DrainQuiet and no request is queued
// or in a handler. Hijacked connections may still be open. If ctx ends first, Drain
// returns an error that wraps ctx's error, but the gate continues to drain. Drain may be
// called more than once.
//
// Call Drain before http.Server.Shutdown. Shutdown closes the listeners immediately.
// Without a drain, requests of routers that have not noticed the shutdown would be lost.
func (g *Gate) Drain(ctx context.Context) error {
	return g.state().Drain(ctx)
}

// Draining returns a channel that is closed when the drain begins, so that handlers
// with long streams can end them.
func (g *Gate) Draining() <-chan struct{} { return g.state().Gate.Drain.Started() }
