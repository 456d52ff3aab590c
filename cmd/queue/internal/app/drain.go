package app

import (
	"context"
	"errors"
)

// Drain begins to drain. Calls after the first do nothing.
func (p *App) Drain() { p.gate.Drain.Start() }

// Reload loads the certificates again.
func (p *App) Reload() { p.secure.reload() }

// Run returns when the gate has drained, which Drain or `queue drain` begins,
// or with an error when ctx ends.
func (p *App) Run(ctx context.Context) error {
	select {
	case <-p.gate.Drain.Started():
		p.log.Info("draining")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-p.gate.Drain.Quiet():
	case <-ctx.Done():
		return ctx.Err()
	}
	p.secure.close()
	return p.shutdown(ctx)
}

// shutdown ends both engines at the same time: each sees the other's requests
// as open.
func (p *App) shutdown(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		err := p.streams.Shutdown(ctx)
		p.server.Departed()
		ended <- err
	}()
	return errors.Join(p.server.Shutdown(ctx), <-ended)
}
