package probe

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

var anyOrKubelet = []gate.Prober{gate.AnyProber, gate.Kubelet}

func TestAProberWaitsForADueCheckEvenWithoutReadinessWait(t *testing.T) {
	for _, spec := range []Spec{adaptiveSpec("app"), periodicSpec("app", 5*time.Second)} {
		for _, caller := range anyOrKubelet {
			runOne(t, Options{Wait: -1}, spec, 300*time.Millisecond, always(success), func(r *Readiness, app *application) {
				for range 5 {
					// After 6 s the last check of an adaptive probe is too old (Freshness
					// is 1 s), and the next check of a periodic probe is due (after 5 s).
					time.Sleep(6 * time.Second)
					if result := r.Wait(context.Background(), caller); !result.Ready {
						t.Errorf("period %v, caller %d: %+v", spec.Period, caller, result)
					}
				}
			})
		}
	}
}

func TestWaitLastsUpToTheTimeoutOfAPeriodicCheck(t *testing.T) {
	spec := periodicSpec("app", 60*time.Second)
	spec.Timeout = 30 * time.Second
	const took = 25 * time.Second
	for _, caller := range anyOrKubelet {
		runOne(t, Options{}, spec, took, always(success), func(r *Readiness, app *application) {
			began := time.Now()
			if result := r.Wait(context.Background(), caller); !result.Ready || time.Since(began) != took {
				t.Errorf("caller %d: %+v after %v", caller, result, time.Since(began))
			}
		})
	}
}

func TestAKubeletProbeIsDueDespiteJitter(t *testing.T) {
	const period = 10 * time.Second
	runOne(t, Options{}, periodicSpec("app", period), time.Millisecond, always(success), func(r *Readiness, app *application) {
		began := time.Now()
		for tick := range 200 {
			at := began.Add(time.Duration(tick+1)*period + time.Duration(rand.Int64N(int64(period/5))) - period/10)
			time.Sleep(time.Until(at))
			r.Wait(context.Background(), gate.Kubelet)
			if last := lastEnd(r); last.Before(at) {
				t.Errorf("tick %d at %v gets the result of %v", tick, at.Sub(began), last.Sub(began))
			}
		}
		app.mu.Lock()
		defer app.mu.Unlock()
		if n := len(app.reached); n > 202 {
			t.Errorf("%d probes for 200 ticks", n)
		}
	})
}

// TestManyProbersCauseAtMostNPlusTwoChecksInNPeriods runs random applications with
// random probers: a kubelet, the activator and many others. Once the application is
// ready, all probers together cause at most n+2 checks within n periods, for n up to 5.
// Before that, two checks are at least one period or startingPeriod apart, whichever is
// shorter.
func TestManyProbersCauseAtMostNPlusTwoChecksInNPeriods(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 0))
		period := time.Duration(1+random.IntN(10)) * time.Second
		spec := periodicSpec("app", period)
		spec.SuccessThreshold, spec.FailureThreshold = 1+random.IntN(3), 1+random.IntN(3)
		up := time.Duration(random.IntN(3000)) * time.Millisecond
		healthy := up + time.Duration(random.IntN(3000))*time.Millisecond
		failsFrom, failsTo := 20*time.Second, 20*time.Second+time.Duration(random.IntN(30))*time.Second
		took := time.Duration(random.IntN(150)) * time.Millisecond
		behaviour := func(elapsed time.Duration) check.Result {
			switch {
			case elapsed < up:
				return refused
			case elapsed < healthy || elapsed >= failsFrom && elapsed < failsTo:
				return failed
			}
			return success
		}
		var readyAt time.Duration
		began := time.Now()
		o := Options{OnChange: func(c Change) {
			if c.To == Ready && readyAt == 0 {
				readyAt = time.Since(began)
			}
		}}
		runOne(t, o, spec, took, behaviour, func(r *Readiness, app *application) {
			began = app.began
			var callers sync.WaitGroup
			call := func(each time.Duration, caller gate.Prober) {
				callers.Go(func() {
					for time.Since(app.began) < time.Minute {
						arrived := time.Now()
						result := r.Wait(context.Background(), caller)
						if caller == gate.Kubelet && result.Reason != "app: timeout" && lastEnd(r).Before(arrived) {
							t.Errorf("seed %d: the kubelet gets a result from before its tick", seed)
						}
						time.Sleep(time.Until(arrived.Add(each)))
					}
				})
			}
			call(period, gate.Kubelet)
			call(200*time.Millisecond, gate.Platform)
			for range 20 {
				call(time.Duration(1+random.IntN(1000))*time.Millisecond, gate.AnyProber)
			}
			callers.Wait()
			app.mu.Lock()
			defer app.mu.Unlock()
			if readyAt == 0 {
				t.Errorf("seed %d: never ready", seed)
			}
			for i, from := range app.reached {
				if i > 0 && from <= readyAt && from-app.reached[i-1] < min(period, startingPeriod) {
					t.Errorf("seed %d: probes %v apart while it starts", seed, from-app.reached[i-1])
				}
				for n := 1; from > readyAt && n <= 5; n++ {
					count := 0
					for _, at := range app.reached[i:] {
						if at < from+time.Duration(n)*period {
							count++
						}
					}
					if count > n+2 {
						t.Errorf("seed %d: %d probes within %d periods of %v, from %v on", seed, count, n, period, from)
					}
				}
			}
		})
	}
}

func TestWaitingProbersUseNoGoroutineAndLeakNothing(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, upFrom(5*time.Second), func(r *Readiness, _ *application) {
		synctest.Wait()
		before := runtime.NumGoroutine()
		var results []gate.ReadinessResult
		for i := range 2000 {
			cancel := r.Await(gate.AnyProber, func(v gate.ReadinessResult) { results = append(results, v) })
			if i%2 == 1 {
				cancel()
			}
		}
		if n := runtime.NumGoroutine() - before; n > 0 {
			t.Errorf("%d goroutines more", n)
		}
		r.mu.Lock()
		if n := len(r.containers[0].changed.waiters); n != 1000 {
			t.Errorf("%d callers are held, want 1000", n)
		}
		r.mu.Unlock()
		time.Sleep(6 * time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(results) != 1000 || !results[0].Ready || !results[999].Ready {
			t.Errorf("%d results", len(results))
		}
		if r.waiting != 0 || r.containers[0].changed.waiters != nil {
			t.Errorf("%d callers are held, %d wait for a change", r.waiting, len(r.containers[0].changed.waiters))
		}
	})
}
