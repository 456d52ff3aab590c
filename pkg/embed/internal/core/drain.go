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
		// Read open before s.arrived, so that s.arrived includes every request that has
		// ended.
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

// await waits for wait or, if wait is not positive, until a request ends. If ctx ends
// first, it returns ctx's error.
func (s *State) await(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ended, over := s.ended, (<-chan time.Time)(nil)
	if wait > 0 {
		ended = nil // ignore ends of requests before wait has passed
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

// NotifyDrain wakes a waiting Drain.
func (s *State) NotifyDrain() {
	if !s.Gate.Drain.Active() {
		return
	}
	select {
	case s.ended <- struct{}{}:
	default:
	}
}
