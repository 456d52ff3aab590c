package probe

import (
	"context"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

func TestASuspendedContainerIsNotCheckedAndReportedAsReady(t *testing.T) {
	for name, spec := range map[string]Spec{
		"adaptive": {Port: 8080, Timeout: time.Second, SuccessThreshold: 1},
		"periodic": {Port: 8080, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1, Period: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []string
			o := Options{OnChange: func(c Change) { changes = append(changes, c.From.String()+" to "+c.To.String()) }}
			var listens atomic.Bool
			listens.Store(true)
			respond := func(time.Duration) check.Result {
				if listens.Load() {
					return success
				}
				return refused
			}
			runOne(t, o, spec, 0, respond, func(r *Readiness, a *application) {
				time.Sleep(10 * time.Second)
				r.Suspend()
				r.Suspend() // changes nothing
				listens.Store(false)
				before := a.total()
				for range 100 {
					time.Sleep(time.Minute)
					r.Observed(false)
					for _, prober := range []gate.Prober{gate.AnyProber, gate.Kubelet, gate.Platform} {
						if v, ok := r.Try(prober); !ok || !v.Ready {
							t.Fatalf("%+v, known %v", v, ok)
						}
					}
				}
				if n := a.total(); n != before {
					t.Errorf("%d checks while it was suspended", n-before)
				}
				if s := r.Snapshot()[0]; s.State != "asleep" || !s.Ready || s.Reason != "" {
					t.Errorf("%+v", s)
				}
				r.Resume()
				if v := r.Wait(context.Background(), gate.Kubelet); v.Ready {
					t.Error("it is ready before it listens")
				}
				listens.Store(true)
				time.Sleep(10 * time.Second)
				if v := r.Wait(context.Background(), gate.Kubelet); !v.Ready {
					t.Errorf("it is not ready again: %s", v.Reason)
				}
			})
			want := []string{"unknown to ready", "ready to asleep", "asleep to unknown", "unknown to down", "down to ready"}
			if len(changes) != len(want) {
				t.Fatalf("%q", changes)
			}
			for i := range want {
				if changes[i] != want[i] {
					t.Errorf("%q, want %q", changes, want)
				}
			}
		})
	}
}

func TestASuspensionEndsTheWaitOfProbers(t *testing.T) {
	runOne(t, Options{}, Spec{Port: 8080, Timeout: time.Second, SuccessThreshold: 1}, 0, upFrom(time.Hour), func(r *Readiness, _ *application) {
		began := time.Now()
		time.AfterFunc(100*time.Millisecond, r.Suspend)
		if v := r.Wait(context.Background(), gate.AnyProber); !v.Ready || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%+v after %v", v, time.Since(began))
		}
	})
}

func (a *application) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}
