package embed

import (
	"context"
	"fmt"
	"time"
)

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
	g.arrived.CompareAndSwap(0, int64(g.now()))
	g.gate.Drain.Start()
	for {
		open := g.gate.Drain.Requests() // read before arrived: requests that have ended by now have set it
		wait := g.cfg.DrainQuiet - (g.now() - time.Duration(g.arrived.Load()))
		if open == 0 && wait <= 0 {
			g.notifyDrain() // other Drain calls may wait for the same
			return nil
		}
		if err := g.await(ctx, wait); err != nil {
			return fmt.Errorf("draining with %d in flight and %d queued: %w", g.InFlight(), g.QueueDepth(), err)
		}
	}
}

// Draining returns a channel that is closed when the drain begins, so that handlers
// with long streams can end them.
func (g *Gate) Draining() <-chan struct{} { return g.gate.Drain.Started() }

// await waits until a request ends, at most for wait. The error is ctx's.
func (g *Gate) await(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ended, over := g.ended, (<-chan time.Time)(nil)
	if wait > 0 {
		ended = nil // nothing can end earlier
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// notifyDrain wakes a waiting Drain.
func (g *Gate) notifyDrain() {
	if !g.gate.Drain.Active() {
		return
	}
	select {
	case g.ended <- struct{}{}:
	default:
	}
}
