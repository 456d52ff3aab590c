package e2e

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// periodic returns an HTTP probe with a period of one second and these JSON members. The
// timeout is long, because the application is in the process of the test, which a busy
// machine may delay.
func periodic(fields string) string {
	return `{"httpGet":{"path":"/ready"},"periodSeconds":1,"timeoutSeconds":60` + fields + `}`
}

// failing is an application that responds with status 500 while fails is set. It counts
// these responses before it sends them.
type failing struct {
	*app
	fails    atomic.Bool
	failures atomic.Int32
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	f := &failing{app: newApp(t)}
	f.listen(http1(func(w http.ResponseWriter, _ *http.Request) {
		if f.fails.Load() {
			f.failures.Add(1)
			w.WriteHeader(500)
		}
	}))
	return f
}

// atMost fails the test if the application got more than one connection per period. The
// parameter times has the time of each connection. The span between two of them may
// contain one connection for each complete period, one more because both ends of the span
// count, and the given number of extra ones. The constant slack is added to each span,
// because the times are inaccurate.
func atMost(t *testing.T, times []time.Time, period time.Duration, extra int) {
	t.Helper()
	const slack = 100 * time.Millisecond
	for i := range times {
		for j := i + 1; j < len(times); j++ {
			span := times[j].Sub(times[i]) + slack
			if seen, allowed := j-i+1, int(span/period)+1+extra; seen > allowed {
				t.Fatalf("the application saw %d probes within %v, allowed are %d with a period of %v", seen, span-slack, allowed, period)
			}
		}
	}
}

func TestWithAPeriodTheApplicationGetsOneCheckPerPeriodForAllProbers(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	g := startGateFor(t, a, periodic(""))
	g.becomesReady(activator)
	first := a.count()
	start := time.Now()
	tick := time.Now()
	numProbes := 0
	for time.Since(start) < 2500*time.Millisecond {
		for range 10 {
			g.ask(activator).ready()
			numProbes++
		}
		if time.Now().After(tick) {
			g.ask(kubelet).ready()
			tick = tick.Add(time.Second)
		}
		<-time.After(10 * time.Millisecond)
	}
	times := a.times()[first-1:]
	t.Logf("%d probes and a kubelet probe per second in %v: %d checks", numProbes, time.Since(start), len(times))
	atMost(t, times, time.Second, 1)
	if len(times) < 2 {
		t.Errorf("the application saw %d probes in 2.5 periods", len(times))
	}
}

func TestWithAPeriodAStartingApplicationGetsACheckEvery200Milliseconds(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.status.Store(503)
	a.listen(a.website)
	g := startGateFor(t, a, periodic(""))
	g.becomesNotReady(activator, "user-container: status 503")
	start := time.Now()
	for time.Since(start) < 1500*time.Millisecond {
		for _, prober := range [][]string{activator, activator, kubelet} {
			g.ask(prober).notReady("user-container: status 503")
		}
		<-time.After(10 * time.Millisecond)
	}
	atMost(t, a.times(), 200*time.Millisecond, 1)
	a.status.Store(200)
	g.becomesReady(activator)
}

func TestThePeriodDoesNotLimitChecksOfAPortThatRefuses(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	// The period is longer than the test, so the gate becomes ready only if refused
	// checks are repeated earlier.
	g := startGateFor(t, a, `{"httpGet":{},"periodSeconds":3600,"timeoutSeconds":60}`)
	g.becomesNotReady(activator, "user-container: refused")
	a.listen(a.website)
	g.becomesReady(activator)
	if n := a.count(); n != 1 {
		t.Errorf("the application saw %d probes, want the first alone", n)
	}
	for range 20 {
		g.ask(activator).ready()
	}
	if n := a.count(); n != 1 {
		t.Errorf("the application saw %d probes in one period", n)
	}
}

func TestFailureThresholdAppliesToAllProbersExceptTheKubelet(t *testing.T) {
	t.Parallel()
	a := newFailing(t)
	g := startGateFor(t, a.app, periodic(`,"failureThreshold":3`))
	g.becomesReady(activator)
	a.fails.Store(true)
	g.becomesNotReady(kubelet, "user-container: status 500")
	eventually(t, "the threshold is reached", func() bool {
		// The gate begins the fourth check after it has got the third failure. So it must
		// not be ready after four failures.
		failed := a.failures.Load()
		response := g.ask(activator)
		if response.status == 200 && failed > 3 {
			t.Fatalf("ready after %d failures", failed)
		}
		return response.status == 503
	})
	if failed := a.failures.Load(); failed < 3 {
		t.Errorf("not ready after %d failures, failureThreshold is 3", failed)
	}
	g.ask(activator).notReady("user-container: status 500")
	g.changed("user-container: unknown > ready", "user-container: ready > failing (status 500)")
}

func TestWithAPeriodASingleFailureIsIgnored(t *testing.T) {
	t.Parallel()
	// On a busy machine the next check may fail too. Then the test begins again.
	eventually(t, "only one check in a row fails", func() bool {
		a := newFailing(t)
		g := startGateFor(t, a.app, periodic(`,"failureThreshold":2`))
		g.becomesReady(activator)
		for range 2 {
			a.failures.Store(0)
			a.fails.Store(true)
			g.becomesNotReady(kubelet, "user-container: status 500")
			response := g.ask(activator)
			a.fails.Store(false)
			g.becomesReady(kubelet)
			if a.failures.Load() > 1 {
				return false
			}
			response.ready()
		}
		g.ask(activator).ready()
		g.changed("user-container: unknown > ready")
		return true
	})
}

func TestReadinessNeedsAsManyConsecutiveSuccessesAsSuccessThreshold(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		probe     string
		responses []int // statuses of the application; the last one is repeated
	}{
		{periodic(`,"successThreshold":4`), []int{200, 200, 500, 200, 200, 200, 200}},
		{`{"httpGet":{"path":"/ready"},"timeoutSeconds":60,"successThreshold":2}`, []int{200, 500, 200, 200}},
	} {
		a := newApp(t)
		at := 0
		a.listen(func(l net.Listener) {
			serial(l, func() int {
				at++
				return x.responses[min(at, len(x.responses))-1]
			})
		})
		g := startGateFor(t, a, x.probe, "READINESS_WAIT=1ms")
		seen := 0
		eventually(t, "enough successes in a row", func() bool {
			response := g.ask(activator)
			seen = a.count()
			return response.status == 200
		})
		if seen < len(x.responses) {
			t.Errorf("%s: ready after %d probes, want not before number %d", x.probe, seen, len(x.responses))
		}
		g.logs(`"to":"failing","cause":"confirming"`)
	}
}

func TestTheKubeletGetsTheRawResultBelowSuccessThreshold(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	g := startGateFor(t, a, periodic(`,"successThreshold":1000`))
	g.becomesReady(kubelet)
	g.ask(activator).notReady("user-container: confirming")
	g.ask(kubelet).ready()
}

// serial serves one connection at a time. It calls the function next to get the status of
// each response.
func serial(l net.Listener, next func() int) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := readHead(c); err == nil {
			fmt.Fprintf(c, "HTTP/1.1 %d Status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", next())
		}
		_ = c.Close()
	}
}
