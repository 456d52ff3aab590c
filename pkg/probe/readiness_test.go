package probe

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

var (
	success  = check.Result{Reached: true}
	refused  = check.Result{Cause: check.Cause{Kind: check.CauseRefused}}
	failed   = check.Result{Cause: check.Cause{Kind: check.CauseStatus, Status: 503}, Reached: true}
	timedOut = check.Result{Cause: check.Cause{Kind: check.CauseTimeout}, Reached: true}
)

// application is a check.Checker under a fake clock. The result of a check depends on
// the time since the test began.
type application struct {
	t       *testing.T
	took    time.Duration
	respond func(elapsed time.Duration) check.Result

	mu      sync.Mutex
	began   time.Time
	busy    bool
	reached []time.Duration // start times of the checks that reached the application
	all     int
}

func newApplication(t *testing.T, took time.Duration, respond func(elapsed time.Duration) check.Result) *application {
	return &application{t: t, took: took, respond: respond, began: time.Now()}
}

func (a *application) Check(ctx context.Context) check.Result {
	a.mu.Lock()
	if a.busy {
		a.t.Error("two probes of one container at a time")
	}
	a.busy = true
	a.all++
	began := time.Since(a.began)
	result := a.respond(began)
	if result.Reached {
		a.reached = append(a.reached, began)
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.busy = false
		a.mu.Unlock()
	}()
	if !result.Reached || a.took == 0 {
		return result
	}
	select {
	case <-time.After(a.took):
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.respond(time.Since(a.began))
	case <-ctx.Done():
		return timedOut
	}
}

func (a *application) reachedBetween(from, to time.Duration) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, at := range a.reached {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// upFrom returns a function for application.respond. The parameter up is the time at
// which the application starts to listen. Earlier checks are refused, and later checks
// succeed.
func upFrom(up time.Duration) func(time.Duration) check.Result {
	return func(elapsed time.Duration) check.Result {
		if elapsed < up {
			return refused
		}
		return success
	}
}

func always(r check.Result) func(time.Duration) check.Result {
	return func(time.Duration) check.Result { return r }
}

// until returns a function for application.respond. The parameter at is the time at which
// the result of the checks changes from the second to the third parameter.
func until(at time.Duration, before, after check.Result) func(time.Duration) check.Result {
	return func(elapsed time.Duration) check.Result {
		if elapsed < at {
			return before
		}
		return after
	}
}

func adaptiveSpec(name string) Spec {
	return Spec{Container: name, Host: "127.0.0.1", Port: 8080, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
}

func periodicSpec(name string, period time.Duration) Spec {
	s := adaptiveSpec(name)
	s.Period = period
	return s
}

// run calls f with a running Readiness under a fake clock.
func run(t *testing.T, o Options, specs []Spec, apps func() []*application, f func(*Readiness, []*application)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		list := apps()
		o.Specs = slices.Clone(specs)
		for i := range list {
			o.Specs[i].Checker = list[i]
		}
		r := New(o)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx)
		}()
		f(r, list)
		stop()
		<-done
	})
}

func runOne(t *testing.T, o Options, spec Spec, took time.Duration, respond func(time.Duration) check.Result, f func(*Readiness, *application)) {
	t.Helper()
	run(t, o, []Spec{spec}, func() []*application { return []*application{newApplication(t, took, respond)} },
		func(r *Readiness, apps []*application) { f(r, apps[0]) })
}

func caller(kubelet bool) gate.Prober {
	if kubelet {
		return gate.Kubelet
	}
	return gate.AnyProber
}

// probeFor returns the result for a prober that disconnects after d.
func probeFor(r *Readiness, d time.Duration) gate.ReadinessResult {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return r.Wait(ctx, gate.AnyProber)
}

// lastEnd returns the time at which the last check of the first container ended.
func lastEnd(r *Readiness) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[0].checkEnded
}

func TestWithoutProbesAPodIsAlwaysReady(t *testing.T) {
	r := New(Options{})
	if a := r.Wait(context.Background(), gate.AnyProber); !a.Ready || a.Reason != "" {
		t.Errorf("result %+v", a)
	}
}

func TestProbersWaitAndAreReleasedWhenTheContainerIsReady(t *testing.T) {
	const up = 3 * time.Second
	runOne(t, Options{}, adaptiveSpec("app"), 0, upFrom(up), func(r *Readiness, app *application) {
		began := time.Now()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				result := r.Wait(context.Background(), gate.AnyProber)
				if late := time.Since(began) - up; !result.Ready || late < 0 || late > 12*time.Millisecond {
					t.Errorf("result %+v, %v after it was up", result, late)
				}
			})
		}
		callers.Wait()
		if n := app.reachedBetween(0, up+time.Second); n != 1 {
			t.Errorf("%d probes reached it", n)
		}
	})
}

func TestAProberGetsTheReasonAfterItsMaximumWait(t *testing.T) {
	cases := map[string]struct {
		options Options
		caller  gate.Prober
		want    time.Duration
	}{
		"the default of 10 s":           {Options{}, gate.AnyProber, 10 * time.Second},
		"READINESS_WAIT":                {Options{Wait: 2 * time.Second}, gate.AnyProber, 2 * time.Second},
		"no waiting":                    {Options{Wait: -1}, gate.AnyProber, 0},
		"a kubelet":                     {Options{}, gate.Kubelet, 900 * time.Millisecond},
		"a kubelet with a shorter wait": {Options{Wait: 100 * time.Millisecond}, gate.Kubelet, 100 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			runOne(t, c.options, adaptiveSpec("app"), 0, always(failed), func(r *Readiness, _ *application) {
				synctest.Wait()
				began := time.Now()
				result := r.Wait(context.Background(), c.caller)
				if held := time.Since(began); held != c.want || result != (gate.ReadinessResult{Reason: "app: status 503"}) {
					t.Errorf("held %v, want %v; result %+v", held, c.want, result)
				}
			})
		})
	}
}

func TestAProberThatDisconnectsStopsWaiting(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, always(refused), func(r *Readiness, _ *application) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if result := r.Wait(ctx, gate.AnyProber); result.Ready || time.Since(began) != 50*time.Millisecond {
			t.Errorf("result %+v after %v", result, time.Since(began))
		}
		if r.waiting != 0 {
			t.Errorf("%d still counted as waiting", r.waiting)
		}
	})
}

func TestAnAdaptiveProbeNeverReportsAResultOlderThanFreshness(t *testing.T) {
	// The application fails from 20 s on. A check takes 50 ms.
	const broken = 20 * time.Second
	runOne(t, Options{Wait: 200 * time.Millisecond}, adaptiveSpec("app"), 50*time.Millisecond, until(broken, success, failed), func(r *Readiness, app *application) {
		began := time.Now()
		for time.Since(began) < 2*broken {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			result := r.Wait(context.Background(), gate.AnyProber)
			at := time.Since(began)
			if result.Ready && at > broken+time.Second {
				t.Fatalf("ready at %v", at)
			}
			if !result.Ready && at < broken {
				t.Fatalf("not ready at %v: %s", at, result.Reason)
			}
		}
	})
}

func TestAHangingCheckMeansNotReady(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, until(5*time.Second, success, timedOut), func(r *Readiness, app *application) {
		time.Sleep(4 * time.Second)
		app.mu.Lock()
		app.took, app.respond = time.Hour, always(success)
		app.mu.Unlock()
		time.Sleep(10 * time.Second)
		began := time.Now()
		if result := r.Wait(context.Background(), gate.Kubelet); result.Ready || result.Reason != "app: timeout" {
			t.Errorf("result %+v", result)
		}
		if held := time.Since(began); held > 900*time.Millisecond {
			t.Errorf("held for %v", held)
		}
	})
}

func TestAThousandProbersCauseAtMostTheAllowedChecks(t *testing.T) {
	const span = 10 * time.Second
	cases := map[string]struct {
		spec    Spec
		kubelet bool
		took    time.Duration
		most    int
	}{
		"adaptive: one per second of freshness":   {adaptiveSpec("app"), false, 0, 11},
		"adaptive, kubelets":                      {adaptiveSpec("app"), true, 5 * time.Millisecond, 11},
		"a period of 1 s":                         {periodicSpec("app", time.Second), false, 0, 10},
		"a period of 1 s, kubelets":               {periodicSpec("app", time.Second), true, 0, 12},
		"a period of 5 s, slow, at 0, 5 and 10 s": {periodicSpec("app", 5*time.Second), false, 300 * time.Millisecond, 3},
		"a period of 10 s, kubelets":              {periodicSpec("app", 10*time.Second), true, 0, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			runOne(t, Options{}, c.spec, c.took, always(success), func(r *Readiness, app *application) {
				if !r.Wait(context.Background(), gate.AnyProber).Ready {
					t.Fatal("not ready")
				}
				began := time.Since(app.began)
				var callers sync.WaitGroup
				for i := range 1000 {
					callers.Go(func() {
						time.Sleep(time.Duration(i) * 20 * time.Microsecond)
						for time.Since(app.began) < began+span {
							if result := r.Wait(context.Background(), caller(c.kubelet)); !result.Ready {
								t.Errorf("not ready: %s", result.Reason)
								return
							}
							time.Sleep(500 * time.Millisecond)
						}
					})
				}
				callers.Wait()
				n := app.reachedBetween(0, began+span)
				if n > c.most || n == 0 {
					t.Errorf("%d probes, at most %d allowed", n, c.most)
				}
			})
		})
	}
}

func TestProbersOfAStartingContainerCauseAtMostTheAllowedChecks(t *testing.T) {
	const period = time.Second
	runOne(t, Options{}, periodicSpec("app", period), 0, func(elapsed time.Duration) check.Result {
		switch {
		case elapsed < 700*time.Millisecond:
			return refused
		case elapsed < 5*time.Second:
			return failed
		}
		return success
	}, func(r *Readiness, app *application) {
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				for time.Since(app.began) < 5*time.Second {
					r.Wait(context.Background(), caller(i%2 == 0))
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		app.mu.Lock()
		defer app.mu.Unlock()
		if first := app.reached[0] - 700*time.Millisecond; first > 12*time.Millisecond {
			t.Errorf("the first probe reached it %v after it listened", first)
		}
		for i := 1; i < len(app.reached); i++ {
			if gap := app.reached[i] - app.reached[i-1]; gap < 200*time.Millisecond {
				t.Errorf("probes %v apart while it starts", gap)
			}
		}
	})
}

func TestThresholdsOfPeriodicChecksApplyToAllProbersExceptTheKubelet(t *testing.T) {
	spec := periodicSpec("app", time.Second)
	spec.SuccessThreshold, spec.FailureThreshold = 3, 2
	// During the start there is a check every 200 ms. The successes at 0, 0.2 and 0.4 s
	// make the container ready. Then there is one check per period of 1 s, beginning at
	// 1.4 s. The application fails from 5 s on, so the checks at 5.4 and 6.4 s fail.
	runOne(t, Options{}, spec, 0, until(5*time.Second, success, failed), func(r *Readiness, app *application) {
		check := func(at time.Duration, want string) {
			t.Helper()
			time.Sleep(at - time.Since(app.began))
			synctest.Wait()
			if result := r.Wait(context.Background(), gate.AnyProber); result.Ready != (want == "") || result.Reason != want {
				t.Errorf("at %v the result is %+v, want %q", at, result, want)
			}
		}
		check(100*time.Millisecond, "app: confirming")
		check(300*time.Millisecond, "app: confirming")
		check(450*time.Millisecond, "")
		check(4500*time.Millisecond, "")
		check(5500*time.Millisecond, "") // one failure
		if result := r.Wait(context.Background(), gate.Kubelet); result.Ready || result.Reason != "app: status 503" {
			t.Errorf("the kubelet is notified of %+v, want the raw result", result)
		}
		check(6600*time.Millisecond, "app: status 503")
		if n := app.reachedBetween(time.Second, 5*time.Second); n != 4 {
			t.Errorf("%d probes in 4 periods", n)
		}
	})
}

func TestTheSuccessThresholdDoesNotApplyToTheKubelet(t *testing.T) {
	spec := periodicSpec("app", time.Second)
	spec.SuccessThreshold = 100
	runOne(t, Options{}, spec, 0, always(success), func(r *Readiness, _ *application) {
		if result := r.Wait(context.Background(), gate.Kubelet); !result.Ready {
			t.Errorf("the kubelet is notified of %+v", result)
		}
		if result := r.Wait(context.Background(), gate.AnyProber); result.Ready {
			t.Error("others get that it is ready")
		}
	})
}

func TestPeriodicChecksFollowTheTimesOfTheKubeletsProbes(t *testing.T) {
	const period = 10 * time.Second
	runOne(t, Options{}, periodicSpec("app", period), 0, until(33*time.Second, success, failed), func(r *Readiness, app *application) {
		// The first check runs at 0 s, although there is no prober. The kubelet's first
		// probe comes at 3 s.
		time.Sleep(3 * time.Second)
		for i := range 4 {
			result := r.Wait(context.Background(), gate.Kubelet)
			if ready := i < 3; result.Ready != ready {
				t.Errorf("tick %d is notified of %+v", i, result)
			}
			time.Sleep(period)
		}
		want := []time.Duration{0, 3 * time.Second, 13 * time.Second, 23 * time.Second, 33 * time.Second}
		if !slices.Equal(app.reached, want) {
			t.Errorf("probes at %v, want %v", app.reached, want)
		}
	})
}

func TestAProberWaitsOnlyForACheckThatIsDue(t *testing.T) {
	const took = 400 * time.Millisecond
	runOne(t, Options{}, periodicSpec("app", 2*time.Second), took, always(success), func(r *Readiness, app *application) {
		synctest.Wait() // the first check is in progress
		began := time.Now()
		if result := r.Wait(context.Background(), gate.AnyProber); !result.Ready || time.Since(began) != took {
			t.Errorf("the first result is %+v after %v", result, time.Since(began))
		}
		time.Sleep(time.Second)
		began = time.Now()
		if result := r.Wait(context.Background(), gate.AnyProber); !result.Ready || time.Since(began) != 0 {
			t.Errorf("between probes the result is %+v after %v", result, time.Since(began))
		}
	})
}

func TestAKubeletProbeWaitsAtMostTheTimeoutOfAPeriodicCheck(t *testing.T) {
	spec := periodicSpec("app", 10*time.Second)
	spec.Timeout = 3 * time.Second
	runOne(t, Options{}, spec, 2*time.Second, always(success), func(r *Readiness, app *application) {
		began := time.Now()
		if result := r.Wait(context.Background(), gate.Kubelet); !result.Ready || time.Since(began) != 2*time.Second {
			t.Errorf("result %+v after %v", result, time.Since(began))
		}
		app.mu.Lock()
		app.took = time.Hour
		app.mu.Unlock()
		time.Sleep(7800 * time.Millisecond) // shortly before the next check is due
		began = time.Now()
		result := r.Wait(context.Background(), gate.Kubelet)
		if result.Ready || result.Reason != "app: timeout" || time.Since(began) != 2900*time.Millisecond {
			t.Errorf("result %+v after %v", result, time.Since(began))
		}
	})
}

func TestSuccessThresholdCountsConsecutiveSuccesses(t *testing.T) {
	spec := adaptiveSpec("app")
	spec.SuccessThreshold = 3
	results := []check.Result{success, success, failed, success, success, success}
	i := 0
	runOne(t, Options{}, spec, 0, func(time.Duration) check.Result {
		i++
		return results[min(i, len(results))-1]
	}, func(r *Readiness, app *application) {
		if result := r.Wait(context.Background(), gate.AnyProber); !result.Ready {
			t.Fatalf("result %+v", result)
		}
		if len(app.reached) != len(results) {
			t.Errorf("ready after %d probes, want %d", len(app.reached), len(results))
		}
	})
}

func TestACheckFailsAfterItsTimeout(t *testing.T) {
	spec := adaptiveSpec("app")
	spec.Timeout = 3 * time.Second
	runOne(t, Options{Wait: time.Minute}, spec, time.Hour, always(success), func(r *Readiness, app *application) {
		time.Sleep(2999 * time.Millisecond)
		if s := r.Snapshot()[0]; s.State != "unknown" || s.Attempts != 0 {
			t.Errorf("before the timeout: %+v", s)
		}
		time.Sleep(2 * time.Millisecond)
		if s := r.Snapshot()[0]; s.State != "failing" || s.Reason != "no answer in time" || s.Attempts != 1 {
			t.Errorf("after the timeout: %+v", s)
		}
	})
}

func TestAContainerThatResponds150MillisecondsAfterTheRequestIsReady(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 150*time.Millisecond, always(success), func(r *Readiness, _ *application) {
		if result := r.Wait(context.Background(), gate.Kubelet); !result.Ready {
			t.Errorf("result %+v", result)
		}
	})
}

func TestAPodNeedsAllContainersAndTheReasonNamesTheUnreadyOnes(t *testing.T) {
	specs := []Spec{adaptiveSpec("a"), adaptiveSpec("b"), periodicSpec("c", time.Second)}
	apps := func() []*application {
		return []*application{
			newApplication(t, 0, upFrom(2*time.Second)), newApplication(t, 0, until(4*time.Second, failed, success)), newApplication(t, 0, always(success)),
		}
	}
	run(t, Options{Wait: time.Second}, specs, apps, func(r *Readiness, apps []*application) {
		began := time.Now()
		if a := r.Wait(context.Background(), gate.AnyProber); a != (gate.ReadinessResult{Reason: "a: refused; b: status 503"}) {
			t.Errorf("result %+v", a)
		}
		time.Sleep(2*time.Second - time.Since(began))
		if a := r.Wait(context.Background(), gate.AnyProber); a != (gate.ReadinessResult{Reason: "b: status 503"}) {
			t.Errorf("result %+v", a)
		}
		time.Sleep(time.Second)
		if a := r.Wait(context.Background(), gate.AnyProber); a != (gate.ReadinessResult{Ready: true}) {
			t.Errorf("result %+v", a)
		}
	})
}

func TestAProberDoesNotWaitIfAContainerWithPeriodicChecksIsNotReady(t *testing.T) {
	specs := []Spec{adaptiveSpec("a"), periodicSpec("b", 5*time.Second)}
	apps := func() []*application {
		return []*application{newApplication(t, 0, always(refused)), newApplication(t, 0, always(failed))}
	}
	run(t, Options{}, specs, apps, func(r *Readiness, _ []*application) {
		synctest.Wait()
		began := time.Now()
		if a := r.Wait(context.Background(), gate.AnyProber); a.Reason != "a: refused; b: status 503" || time.Since(began) != 0 {
			t.Errorf("result %+v after %v", a, time.Since(began))
		}
	})
}

func TestARefusedConnectionMakesAContainerNotReadyImmediately(t *testing.T) {
	for name, spec := range map[string]Spec{"adaptive": adaptiveSpec("app"), "with a period": periodicSpec("app", 10*time.Second)} {
		t.Run(name, func(t *testing.T) {
			runOne(t, Options{UserPort: 8080}, spec, 0, func(elapsed time.Duration) check.Result {
				if elapsed >= 5*time.Second && elapsed < 6*time.Second {
					return refused
				}
				return success
			}, func(r *Readiness, app *application) {
				time.Sleep(5 * time.Second)
				r.Observed(false)
				if s := r.Snapshot()[0]; s.State != "down" {
					t.Errorf("state %v", s.State)
				}
				if result := probeFor(r, time.Millisecond); result.Ready || result.Reason != "app: refused" {
					t.Errorf("result %+v", result)
				}
				time.Sleep(time.Second)
				r.Observed(true) // a queued request got a connection
				synctest.Wait()
				if s := r.Snapshot()[0]; s.State != "ready" {
					t.Errorf("when it is back, its state is %v", s.State)
				}
			})
		})
	}
}

func TestARefusedConnectionToTheUserPortLeavesOtherContainersReady(t *testing.T) {
	other := adaptiveSpec("other")
	other.Port = 9999
	specs := []Spec{adaptiveSpec("app"), other}
	apps := func() []*application {
		return []*application{newApplication(t, 0, always(success)), newApplication(t, 0, always(success))}
	}
	run(t, Options{UserPort: 8080}, specs, apps, func(r *Readiness, _ []*application) {
		synctest.Wait()
		r.Observed(false)
		if s := r.Snapshot(); s[0].State != "down" || s[1].State != "ready" {
			t.Errorf("states %v and %v", s[0].State, s[1].State)
		}
	})
}

func TestACheckStartedBeforeARefusedConnectionDoesNotMakeTheContainerReady(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 100*time.Millisecond, until(5*time.Second, success, refused), func(r *Readiness, app *application) {
		time.Sleep(4 * time.Second)
		go probeFor(r, time.Second) // the last check is too old, so a check begins
		time.Sleep(50 * time.Millisecond)
		app.mu.Lock()
		app.respond = until(4100*time.Millisecond, success, success)
		app.mu.Unlock()
		r.Observed(false)
		time.Sleep(55 * time.Millisecond) // the first check has succeeded, and the next one is in progress
		if s := r.Snapshot()[0]; s.State != "down" {
			t.Errorf("state %v", s.State)
		}
		time.Sleep(time.Second)
		if s := r.Snapshot()[0]; s.State != "ready" {
			t.Errorf("a later success leaves it %v", s.State)
		}
	})
}

func TestAnAcceptedConnectionCausesAnImmediateCheck(t *testing.T) {
	const up = 100 * time.Second
	runOne(t, Options{}, adaptiveSpec("app"), 0, upFrom(up), func(r *Readiness, app *application) {
		time.Sleep(up)
		r.Observed(true)
		synctest.Wait()
		if s := r.Snapshot()[0]; s.State != "ready" {
			t.Errorf("state %v", s.State)
		}
	})
}

func TestAWaitingProberMakesChecksMoreFrequent(t *testing.T) {
	const up = 100*time.Second + 7*time.Millisecond
	runOne(t, Options{}, adaptiveSpec("app"), 0, upFrom(up), func(r *Readiness, app *application) {
		time.Sleep(up - 50*time.Millisecond)
		if result := probeFor(r, 62*time.Millisecond); !result.Ready {
			t.Errorf("12 ms after it was up: %+v", result)
		}
	})
}

func TestAReadyContainerWithoutProbersIsCheckedRarely(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, always(success), func(r *Readiness, app *application) {
		time.Sleep(10 * time.Minute)
		if n := app.reachedBetween(5*time.Minute, 10*time.Minute); n < 9 || n > 12 {
			t.Errorf("%d probes in 5 minutes, want about 10", n)
		}
	})
}

func TestEachChangeOfStateIsNotifiedOnce(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	o := Options{OnChange: func(c Change) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, c.From.String()+" to "+c.To.String()+" "+c.Cause.Token())
		if c.After < 0 || c.Attempts == 0 || c.Quiet || !strings.HasPrefix(c.String(), "app is ") {
			t.Errorf("change %+v", c)
		}
	}}
	runOne(t, o, adaptiveSpec("app"), 0, func(elapsed time.Duration) check.Result {
		switch {
		case elapsed < time.Second:
			return refused
		case elapsed < 2*time.Second:
			return timedOut
		case elapsed < 3*time.Second:
			return failed
		case elapsed < time.Minute:
			return success
		}
		return failed
	}, func(r *Readiness, app *application) {
		time.Sleep(2 * time.Minute)
		app.mu.Lock()
		all := app.all
		app.mu.Unlock()
		if all < 100 {
			t.Errorf("only %d attempts", all)
		}
	})
	want := []string{"unknown to down refused", "down to failing timeout", "failing to ready ", "ready to failing status 503"}
	if !slices.Equal(lines, want) {
		t.Errorf("notified of %q, want %q", lines, want)
	}
}

func TestFrequentReadinessChangesAreMarkedQuiet(t *testing.T) {
	loud, quiet := 0, 0
	o := Options{OnChange: func(c Change) {
		if c.Quiet {
			quiet++
		} else {
			loud++
		}
	}}
	i := 0
	runOne(t, o, adaptiveSpec("app"), 0, func(time.Duration) check.Result {
		i++
		return []check.Result{refused, failed}[i%2]
	}, func(r *Readiness, _ *application) { time.Sleep(10 * time.Second) })
	if loud > 20 || quiet == 0 {
		t.Errorf("%d loud changes and %d quiet ones in 10 s", loud, quiet)
	}
}

func TestTheSnapshotHasTheStateOfEachContainer(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, until(2*time.Second, refused, failed), func(r *Readiness, app *application) {
		time.Sleep(12 * time.Second)
		s := r.Snapshot()[0]
		if s.Container != "app" || s.Probe != "tcp 127.0.0.1:8080" || s.State != "failing" || s.Ready || s.Reason != "answered with status 503" {
			t.Errorf("snapshot %+v", s)
		}
		if s.Reached == 0 || s.Attempts <= s.Reached {
			t.Errorf("snapshot %+v", s)
		}
	})
}

func TestStoppingReleasesProbers(t *testing.T) {
	held := make(chan gate.ReadinessResult, 1)
	runOne(t, Options{}, adaptiveSpec("app"), 0, always(refused), func(r *Readiness, _ *application) {
		go func() { held <- r.Wait(context.Background(), gate.AnyProber) }()
		synctest.Wait()
	})
	if result := <-held; result.Ready || result.Reason != "app: stopped" {
		t.Errorf("result %+v", result)
	}
}

func TestTryReturnsAReadinessResultOnlyIfItIsFresh(t *testing.T) {
	runOne(t, Options{}, adaptiveSpec("app"), 0, until(time.Second, failed, success), func(r *Readiness, _ *application) {
		synctest.Wait()
		if result, ok := r.Try(gate.AnyProber); ok || result.Ready {
			t.Errorf("while it starts: %+v, ok %v", result, ok)
		}
		r.Wait(context.Background(), gate.AnyProber)
		if result, ok := r.Try(gate.AnyProber); !ok || !result.Ready {
			t.Errorf("when ready: %+v, ok %v", result, ok)
		}
		for time.Since(lastEnd(r)) <= time.Second {
			time.Sleep(400 * time.Millisecond)
		}
		if _, ok := r.Try(gate.AnyProber); ok {
			t.Error("old evidence gives a result")
		}
		synctest.Wait()
		if result, ok := r.Try(gate.AnyProber); !ok || !result.Ready {
			t.Errorf("after the fresh check: %+v, ok %v", result, ok)
		}
	})
}

func TestALongReasonIsTruncated(t *testing.T) {
	var r reason
	for range 100 {
		r.add("container-0:8080", check.Cause{Kind: check.CauseStatus, Status: 503})
	}
	if len(r.text) > maxReason || !strings.HasSuffix(string(r.text), "; ...") || strings.Count(string(r.text), "...") != 1 {
		t.Errorf("reason of %d bytes: %q", len(r.text), r.text)
	}
}

func TestAnUnreachableAddressIsCheckedAtALimitedRate(t *testing.T) {
	const span, most = time.Minute, 500
	unreachable := check.Result{Cause: check.Cause{Kind: check.CauseUnreachable}}
	for _, spec := range []Spec{adaptiveSpec("app"), periodicSpec("app", 10*time.Second)} {
		attempts := 0
		runOne(t, Options{}, spec, 0, func(time.Duration) check.Result {
			if attempts++; attempts > 10*most {
				return success // only a sleeping goroutine lets the fake clock advance
			}
			return unreachable
		}, func(r *Readiness, app *application) { time.Sleep(span) })
		if attempts > most {
			t.Errorf("period %v: %d attempts in %v", spec.Period, attempts, span)
		}
	}
}
