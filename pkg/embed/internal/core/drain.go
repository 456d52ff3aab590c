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
		open := s.Gate.Drain.Requests() // read before arrived: requests that have ended by now have set it
		wait := s.Gate.DrainQuiet - (s.Now() - time.Duration(s.arrived.Load()))
		if open == 0 && wait <= 0 {
			s.NotifyDrain() // other Drain calls may wait for the same
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

// await waits until a request ends, at most for wait. The error is ctx's.
func (s *State) await(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ended, over := s.ended, (<-chan time.Time)(nil)
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
