package embed

import "context"

// Drain begins the shutdown, which cannot be undone: probes get 503 "shutting down",
// and each response asks its client to close (Connection: close; GOAWAY over HTTP/2).
// Requests, including new ones, are still served.
//
// Drain returns nil when no request has arrived for DrainQuiet and none is queued or in
// a handler. Hijacked connections may still be open: now is the time to close
// WebSockets in an orderly way. If ctx ends first, Drain returns an error that tells
// how much is open and wraps ctx's error. The drain continues then; with a context that
// has ended, Drain only begins it. It may be called more than once.
//
// Call it before http.Server.Shutdown, which closes the listeners, so that requests
// from routers would be lost, and closes idle connections.
func (g *Gate) Drain(ctx context.Context) error {
	return g.state().Drain(ctx)
}

// Draining returns a channel that is closed when the drain begins, so that handlers
// with long streams can end them.
func (g *Gate) Draining() <-chan struct{} { return g.state().Gate.Drain.Started() }
