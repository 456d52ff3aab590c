package embed

import "context"

// Drain begins the shutdown, which cannot be undone: probes get 503 "shutting down",
// and each response asks its client to close (Connection: close; GOAWAY over HTTP/2).
// Requests, including new ones, are still served.
//
// Drain returns nil when no request has arrived for DrainQuiet, and none is queued or
// in a handler. Hijacked connections may still be open; close WebSockets in an orderly
// way after Drain has returned. If ctx ends first, Drain returns an error that tells
// how many requests are open and wraps ctx's error. The drain continues after that, so
// a context that has already ended only begins it. Drain may be called more than once.
//
// Call Drain before http.Server.Shutdown. Shutdown closes the listeners at once, so
// requests that routers still send would be lost. It also closes idle connections.
func (g *Gate) Drain(ctx context.Context) error {
	return g.state().Drain(ctx)
}

// Draining returns a channel that is closed when the drain begins, so that handlers
// with long streams can end them.
func (g *Gate) Draining() <-chan struct{} { return g.state().Gate.Drain.Started() }
