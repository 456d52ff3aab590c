package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// threeContainers returns a JSON array of three probes. The first has no port.
func threeContainers(second, third *app) string {
	return fmt.Sprintf(`[{"httpGet":{}},{"tcpSocket":{"port":%d}},{"httpGet":{"port":%d}}]`, second.port, third.port)
}

func TestTheResponseNamesTheContainersThatAreNotReady(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"web,side-car,other", ""} {
		web, second, third := listeningApp(t), newApp(t), newApp(t)
		third.status.Store(500)
		third.listen(third.website)
		name := func(i int, a *app) string {
			if names == "" {
				return fmt.Sprintf("container-%d:%d", i, a.port)
			}
			return [...]string{"web", "side-car", "other"}[i]
		}
		one, two, three := name(0, web), name(1, second), name(2, third)
		g := startGateFor(t, web, threeContainers(second, third), "ENABLE_MULTI_CONTAINER_PROBES=true",
			"CONTAINER_NAMES="+names, "READINESS_WAIT=20ms")
		g.becomesNotReady(activator, two+": refused; "+three+": status 500")
		second.listen(second.website)
		g.becomesNotReady(kubelet, three+": status 500")
		third.status.Store(200)
		g.becomesReady(activator)
		g.becomesReady(kubelet)
		web.unlisten()
		g.becomesNotReady(activator, one+": refused")
	}
}

func TestARestartChangesReadinessWithinOneCheck(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		probe  string
		prober []string
	}{
		{adaptiveTCP, activator},
		{adaptiveHTTP, activator},
		{periodic(`,"failureThreshold":5`), kubelet},
	} {
		a := listeningApp(t)
		g := startGateFor(t, a, x.probe, "READINESS_FRESHNESS=1ms", "READINESS_WAIT=50ms")
		g.becomesReady(activator)
		a.unlisten()
		<-time.After(5 * time.Millisecond)
		// Each of these probes causes a check.
		g.ask(x.prober).notReady("user-container: refused")
		g.ask(activator).notReady("user-container: refused")
		g.changed("user-container: unknown > ready", "user-container: ready > down (refused)")
		a.listen(a.website)
		g.becomesReady(activator)
	}
}

func TestARefusedConnectionChangesReadinessAndQueuesTheRequest(t *testing.T) {
	t.Parallel()
	const rare = `{"httpGet":{},"periodSeconds":3600,"timeoutSeconds":60,"failureThreshold":10}`
	for _, probe := range []string{adaptiveTCP, rare} {
		a := listeningApp(t)
		g := startGateFor(t, a, probe, "READINESS_FRESHNESS=1h", "READINESS_WAIT=1h", "UPSTREAM_RESTART_WAIT=60s")
		g.ask(activator).ready()
		dial(t, g).get("/served").is(200, "ok")
		a.unlisten()
		waiting := []*client{queued(t, g, "/held"), queued(t, g, "/held")}
		// No check is due, and the last result is still fresh. The state can therefore
		// have changed only because the requests found no listening container.
		g.changed("user-container: unknown > ready", "user-container: ready > down (refused)")
		g.ask(kubelet).notReady("user-container: refused")
		callers := []*client{}
		if probe == rare {
			g.ask(activator).notReady("user-container: refused")
		} else {
			callers = append(callers, g.startProbe(activator))
		}
		for _, c := range append(waiting, callers...) {
			if c.pending() {
				t.Fatal("got a response while the container is down")
			}
		}
		a.listen(a.website)
		for _, c := range waiting {
			c.response("GET").is(200, "ok")
		}
		for _, c := range callers {
			c.response("GET").ready()
		}
		g.changed("user-container: unknown > ready", "user-container: ready > down (refused)", "user-container: down > ready")
	}
}

func TestOneLogLineForEachChangeOfState(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.status.Store(503)
	g := startGateFor(t, a, adaptiveHTTP, "READINESS_WAIT=20ms", "READINESS_FRESHNESS=1ms")
	g.becomesNotReady(activator, "user-container: refused")
	for range 20 {
		g.ask(activator).notReady("user-container: refused")
	}
	a.listen(a.website)
	g.becomesNotReady(activator, "user-container: status 503")
	for range 10 {
		g.ask(activator).notReady("user-container: status 503")
	}
	// A change of the cause is not a change of state.
	a.status.Store(404)
	g.becomesNotReady(activator, "user-container: status 404")
	a.status.Store(200)
	for range 10 {
		g.becomesReady(activator)
		<-time.After(2 * time.Millisecond)
	}
	a.unlisten()
	g.becomesNotReady(activator, "user-container: refused")
	g.changed(
		"user-container: unknown > down (refused)",
		"user-container: down > failing (status 503)",
		"user-container: failing > ready",
		"user-container: ready > down (refused)")
	attempts := 0
	for _, c := range g.changes() {
		severity := "info"
		if c.From == "ready" {
			severity = "warn"
		}
		if !strings.EqualFold(c.Severity, severity) || c.Message == "" {
			t.Errorf("a change was logged as %+v, want %s", c, severity)
		}
		attempts += c.Attempts
	}
	if attempts < 10 {
		t.Errorf("the lines count %d attempts in total", attempts)
	}
}
