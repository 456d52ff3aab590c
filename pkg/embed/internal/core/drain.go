package core

import (
	"context"
	"fmt"
	"time"
)

// Drain implements embed.Gate's Drain.
func (s *State) Drain(ctx context.Context) error {
	if s.arrived.CompareAndSwap(0, int64(s.Now())) {
		s.stage("draining")
	}
	s.Gate.Drain.Start()
	for {
		// Read the number of open requests first and s.arrived second. A request that
		// arrives during the drain sets s.arrived before it ends. So if no request is
		// open, s.arrived includes all arrivals, and the quiet period is not cut short.
		open := s.Gate.Drain.Requests()
		wait := s.Gate.DrainQuiet - (s.Now() - time.Duration(s.arrived.Load()))
		if open == 0 && wait <= 0 {
			s.NotifyDrain() // wake other calls of Drain
			s.stage("drained")
			return nil
		}
		if err := s.await(ctx, wait); err != nil {
			return fmt.Errorf("draining with %d in flight and %d queued: %w", s.Gate.Admission.InFlight(), s.Gate.Admission.QueueDepth(), err)
		}
	}
}

func (s *State) stage(name string) {
	if s.DrainStage != nil {
		s.DrainStage(name)
	}
}

// await waits for the rest of the quiet period, which is the given duration. If that
// duration is not positive, the quiet period is over, and await waits until a request
// ends. If ctx ends first, the result is the error of ctx.
func (s *State) await(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	requestDone, timeout := s.requestDone, (<-chan time.Time)(nil)
	if wait > 0 {
		requestDone = nil // a nil channel blocks: a request that ends does not shorten the wait
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
	case <-requestDone:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// NotifyDrain wakes a waiting Drain.
func (s *State) NotifyDrain() {
	if !s.Gate.Drain.Active() {
		return
	}
	select {
	case s.requestDone <- struct{}{}:
	default:
	}
}
