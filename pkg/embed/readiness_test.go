package embed

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// asked returns the result for a prober, by Try or by Await.
func (r *readiness) asked(ctx context.Context, who gate.Prober) gate.ReadinessResult {
	if a, known := r.Try(who); known {
		return a
	}
	result := make(chan gate.ReadinessResult, 1)
	cancel := r.Await(who, func(v gate.ReadinessResult) { result <- v })
	defer cancel()
	select {
	case v := <-result:
		return v
	case <-ctx.Done():
		return gate.ReadinessResult{Reason: "caller gone"}
	}
}

func TestProbersShareOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, fails := 0, error(nil)
		r := &readiness{check: func(context.Context) error {
			checks++
			time.Sleep(50 * time.Millisecond)
			return fails
		}}
		askAll := func(want gate.ReadinessResult, wantChecks int) {
			t.Helper()
			var callers sync.WaitGroup
			for range 10 {
				callers.Go(func() {
					if a := r.asked(t.Context(), gate.AnyProber); a != want {
						t.Errorf("answer %+v, want %+v", a, want)
					}
				})
			}
			callers.Wait()
			if checks != wantChecks {
				t.Errorf("%d checks, want %d", checks, wantChecks)
			}
		}
		yes, no := gate.ReadinessResult{Ready: true}, gate.ReadinessResult{Reason: "not ready"}
		askAll(yes, 1)
		fails = errors.New("away")
		time.Sleep(readyFor - 1)
		askAll(yes, 1)
		time.Sleep(time.Nanosecond)
		askAll(no, 2)
		fails = nil
		time.Sleep(notReadyFor - 1)
		askAll(no, 2)
		time.Sleep(time.Nanosecond)
		askAll(yes, 3)
	})
}

func TestAProberWaitsAtMostItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &readiness{check: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		leaves, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct {
			ctx    context.Context
			who    gate.Prober
			reason string
			after  time.Duration
		}{
			{t.Context(), gate.Kubelet, "timeout", kubeletTimeout},
			{leaves, gate.AnyProber, "caller gone", time.Second - kubeletTimeout},
			{t.Context(), gate.AnyProber, "timeout", checkTimeout - time.Second},
		} {
			begun := time.Now()
			if a := r.asked(c.ctx, c.who); a.Ready || a.Reason != c.reason {
				t.Errorf("answer %+v, want %s", a, c.reason)
			}
			if after := time.Since(begun); after != c.after {
				t.Errorf("answered after %s, want %s", after, c.after)
			}
		}
	})
}

func TestACheckThatPanicsMeansNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &readiness{check: func(context.Context) error { panic("a bug") }}
		if a := r.asked(t.Context(), gate.Kubelet); a.Ready || a.Reason != "panic" {
			t.Errorf("answer %+v", a)
		}
	})
}
