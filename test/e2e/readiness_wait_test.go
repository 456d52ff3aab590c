package e2e

import (
	"syscall"
	"testing"
	"time"
)

// Probes without a period. The timeout is long, because the application is in the process
// of the test, which a busy machine may delay.
const (
	adaptiveTCP  = `{"tcpSocket":{},"timeoutSeconds":60}`
	adaptiveHTTP = `{"httpGet":{"path":"/ready"},"timeoutSeconds":60}`
)

// startProbe sends a probe, and waits until the gate has received it.
func (g *gate) startProbe(prober []string) *client {
	g.t.Helper()
	c := dial(g.t, g)
	c.send(request("GET", "/", prober...))
	g.awaitRead(c)
	return c
}

func TestAProberWaitsUntilTheContainerIsReady(t *testing.T) {
	t.Parallel()
	for _, probe := range []string{adaptiveTCP, adaptiveHTTP} {
		a := newApp(t)
		g := startGateFor(t, a, probe, "READINESS_WAIT=60s")
		var all []*client
		for range 8 {
			all = append(all, g.startProbe(activator))
		}
		plain := g.startProbe([]string{"K-Network-Probe: queue", "K-Network-Hash: both"})
		for _, c := range append(all, plain) {
			if c.pending() {
				t.Fatal("a prober got a response before the container listened")
			}
		}
		a.listen(a.website)
		for _, c := range all {
			c.response("GET").ready()
		}
		response := plain.response("GET")
		response.ready()
		response.field("K-Network-Hash", "both")
		g.ask(kubelet).ready()
	}
}

func TestAProberWaitsUntilAFailingContainerIsReady(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.status.Store(503)
	a.listen(a.website)
	g := startGateFor(t, a, adaptiveHTTP, "READINESS_WAIT=60s")
	c := g.startProbe(activator)
	before := a.count()
	eventually(t, "the application is probed again", func() bool { return a.count() >= before+3 })
	if c.pending() {
		t.Fatal("a prober got a response while the checks failed")
	}
	a.status.Store(204)
	c.response("GET").ready()
}

func TestAProberGetsTheReasonItIsNotReadyAfterReadinessWait(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	g := startGateFor(t, a, adaptiveTCP, "READINESS_WAIT=400ms")
	g.changed("user-container: unknown > down (refused)")
	for _, prober := range [][]string{activator, kubelet} {
		start := time.Now()
		g.ask(prober).notReady("user-container: refused")
		checkElapsed(t, start, 400*time.Millisecond)
	}
}

func TestTheKubeletGetsTheReasonAfter900Milliseconds(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	g := startGateFor(t, a, adaptiveTCP, "READINESS_WAIT=60s")
	g.changed("user-container: unknown > down (refused)")
	other := g.startProbe(activator)
	// On a busy machine the response may be late, so one success in several attempts
	// suffices.
	eventually(t, "the kubelet gets a response before it gives up", func() bool {
		start := time.Now()
		g.ask(kubelet).notReady("user-container: refused")
		checkElapsed(t, start, 900*time.Millisecond)
		t.Logf("the kubelet got its response after %v", time.Since(start))
		return time.Since(start) < time.Second
	})
	if other.pending() {
		t.Error("the other prober got its response with the kubelet")
	}
	a.listen(a.website)
	other.response("GET").ready()
}

func TestADrainReleasesWaitingProbersImmediately(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	g := startGateFor(t, a, adaptiveTCP, "READINESS_WAIT=600s", "DRAIN_QUIET_SECONDS=600")
	waiting := []*client{g.startProbe(activator), g.startProbe([]string{"K-Network-Probe: queue"})}
	g.signal(syscall.SIGTERM)
	for _, c := range waiting {
		c.response("GET").plainError(503, "shutting down\n")
	}
	g.ask(kubelet).plainError(503, "shutting down\n")
}

func TestNoResultIsBasedOnACheckOlderThanReadinessFreshness(t *testing.T) {
	t.Parallel()
	const freshness = 100 * time.Millisecond
	a := listeningApp(t)
	g := startGateFor(t, a, adaptiveHTTP, "READINESS_WAIT=5ms", "READINESS_FRESHNESS="+freshness.String())
	// The interval grows: after six successes the next check is 8 s away.
	for range 6 {
		before := a.count()
		g.becomesReady(activator)
		<-time.After(freshness + 10*time.Millisecond)
		g.becomesReady(activator)
		if a.count() == before {
			t.Error("a response is based on a check older than READINESS_FRESHNESS")
		}
	}
	a.status.Store(500)
	// A check that began before the change may return the old result.
	<-time.After(freshness + 200*time.Millisecond)
	for range 3 {
		if got := g.ask(kubelet).status; got != 503 {
			t.Errorf("got %d based on a check older than READINESS_FRESHNESS", got)
		}
	}
	g.becomesNotReady(activator, "user-container: status 500")
}

func TestAFreshReadinessResultIsReused(t *testing.T) {
	t.Parallel()
	a := listeningApp(t)
	g := startGateFor(t, a, adaptiveHTTP, "READINESS_FRESHNESS=1h")
	start := time.Now()
	for range 100 {
		g.ask(activator).ready()
		g.ask(kubelet).ready()
	}
	// The next checks are due after 1, 2, 4 and 8 s.
	if n, most := a.count(), 2+int(time.Since(start)/time.Second); n > most {
		t.Errorf("200 probes within %v caused %d probes", time.Since(start), n)
	}
}
