package embed

import (
	"context"
	"fmt"
	"time"
)

// Drain begins the end of the gate's life, with no way back: from now on
// probes are answered 503 "shutting down", and every answer tells its client
// to close (Connection: close; GOAWAY over HTTP/2). Requests, new ones too,
// are served as before.
//
// It returns nil when for DrainQuiet no request has arrived and none is open,
// neither queued nor in a handler. Hijacked connections may be: now is the time
// to close WebSockets in order. Otherwise it returns when ctx ends, with an
// error that says how much is open and wraps ctx's. The drain goes on then;
// with a context that has ended, Drain only begins it. It may be called more
// than once.
//
// Call it before http.Server.Shutdown: that closes the listeners, which loses
// requests that routers still send here, and tells connections without a
// request to go.
func (g *Gate) Drain(ctx context.Context) error {
	g.arrived.CompareAndSwap(0, int64(g.now()))
	g.gate.Drain.Start()
	for {
		open := g.gate.Drain.Requests() // before the last arrival: what is over by then has set that
		wait := g.cfg.DrainQuiet - (g.now() - time.Duration(g.arrived.Load()))
		if open == 0 && wait <= 0 {
			g.notifyDrain() // others may wait for the same
			return nil
		}
		if err := g.await(ctx, wait); err != nil {
			return fmt.Errorf("draining with %d in flight and %d queued: %w", g.InFlight(), g.QueueDepth(), err)
		}
	}
}

// Draining is closed when the drain begins: a sign for handlers with long
// streams to bring them to an end.
func (g *Gate) Draining() <-chan struct{} { return g.gate.Drain.Started() }

// await returns after wait, or else when a request ends. The error is ctx's.
func (g *Gate) await(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ended, over := g.ended, (<-chan time.Time)(nil)
	if wait > 0 {
		ended = nil // nothing is over before
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

// notifyDrain wakes the drain.
func (g *Gate) notifyDrain() {
	if !g.gate.Drain.Active() {
		return
	}
	select {
	case g.ended <- struct{}{}:
	default:
	}
}
