package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ledger is the file in which an application records its starts and requests.
type ledger struct {
	t    *testing.T
	path string
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	l := ledger{t, filepath.Join(t.TempDir(), "ledger")}
	must(t, os.WriteFile(l.path, nil, 0o600))
	return l
}

func (l ledger) setting() string { return ledgerFile + "=" + l.path }

// counts returns how often each line occurs that begins with the parameter event, which is
// "start" or "request". The key in the result is the rest of the line, which is a process
// id or the query of a request.
func (l ledger) counts(event string) map[string]int {
	l.t.Helper()
	text, err := os.ReadFile(l.path)
	must(l.t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), event+" "); ok {
			counts[rest]++
		}
	}
	return counts
}

// sleeps returns how often the application has fallen asleep.
func (g *gate) sleeps() int {
	return strings.Count(g.Stderr.String(), "the application is asleep until a request needs it")
}

// fallsAsleep waits for the nth stop of the application.
func (g *gate) fallsAsleep(n int) {
	g.t.Helper()
	eventually(g.t, "the application is asleep", func() bool { return g.sleeps() >= n })
}

func TestAnIdleApplicationIsStoppedAndStartedOnceForAllWaitingRequests(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	g := startGateWithApplication(t, "IDLE_STOP=1s", "THREADS=2", l.setting())
	first := g.fetch("/pid")
	g.fallsAsleep(g.sleeps() + 1)
	if pid, _ := strconv.Atoi(first); syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Error("the application runs while it is asleep")
	}
	before := len(l.counts("start"))
	const clients = 200
	var all []*client
	for range clients {
		all = append(all, dial(t, g))
	}
	awake := dial(t, g)
	awake.send(request("GET", "/hold")) // keeps the application awake until all requests have ended
	var waiting sync.WaitGroup
	for i, c := range all {
		waiting.Go(func() {
			defer c.close()
			c.get("/?"+strconv.Itoa(i)).is(200, "ok")
		})
	}
	waiting.Wait()
	awake.head()
	g.fetch("/release")
	awake.chunked()
	if starts := l.counts("start"); len(starts) != before+1 {
		t.Errorf("%d processes, %d of them before the requests: %v", len(starts), before, starts)
	}
	requests := l.counts("request")
	for i := range clients {
		if n := requests[strconv.Itoa(i)]; n != 1 {
			t.Errorf("request %d was executed %d times", i, n)
		}
	}
}

func TestADrainOfASleepingApplicationEndsWithCodeZero(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "IDLE_STOP=50ms", "DRAIN_QUIET_SECONDS=0")
	g.fallsAsleep(1)
	g.signal(syscall.SIGTERM)
	g.ends(0)
	if log := g.Stderr.String(); strings.Contains(log, `"severity":"error"`) {
		t.Error("the planned stop is logged as an error")
	}
}

// stopRequests sets the number of requests in the tests with ExecutedExactlyOnce in their
// name.
const stopRequests = "E2E_STOP_REQUESTS"

func TestRequestsThatArriveAroundTheStopAreExecutedExactlyOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const idle = 50 * time.Millisecond
	g := startGateWithApplication(t, "IDLE_STOP="+idle.String(), "THREADS=2", l.setting())
	g.getsBurstsAt(idle, l)
	if starts := len(l.counts("start")); starts < 2 {
		t.Error("the application was never stopped")
	}
}

// getsBurstsAt sends bursts of requests within 5 ms of the end of the application's idle
// time. Each request must be executed exactly once.
func (g *gate) getsBurstsAt(idle time.Duration, l ledger) {
	t := g.t
	t.Helper()
	total := 300
	if text := os.Getenv(stopRequests); text != "" {
		var err error
		total, err = strconv.Atoi(text)
		must(t, err)
	}
	const burst, near = 10, 5 * time.Millisecond
	clients := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: burst}, Timeout: testTimeout}
	defer clients.CloseIdleConnections()
	post := func(id string) error {
		a, err := clients.Post("http://"+g.addr+"/?"+id, "text/plain", strings.NewReader("body"))
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if _, err = io.Copy(io.Discard, a.Body); err == nil && a.StatusCode != 200 {
			err = fmt.Errorf("status %d", a.StatusCode)
		}
		return err
	}
	must(t, post("first"))
	endTime := time.Now()
	for sent := 0; sent < total; sent += burst {
		at := endTime.Add(idle + time.Duration(rand.Int64N(int64(2*near))) - near)
		var open sync.WaitGroup
		for i := range burst {
			id := strconv.Itoa(sent + i)
			open.Go(func() {
				time.Sleep(time.Until(at))
				if err := post(id); err != nil {
					t.Errorf("request %s: %v", id, err)
				}
			})
		}
		open.Wait()
		endTime = time.Now()
	}
	requests, lost, twice := l.counts("request"), 0, 0
	for i := range total {
		switch n := requests[strconv.Itoa(i)]; {
		case n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	sleeps := strings.Count(g.Stderr.String(), "the application is asleep until a request needs it")
	t.Logf("%d requests, %d lost, %d executed twice, %d starts, %d sleeps", total, lost, twice, len(l.counts("start")), sleeps)
	if lost > 0 || twice > 0 {
		t.Error("requests were lost or executed twice")
	}
	if sleeps == 0 {
		t.Error("the application never slept")
	}
}

func TestARequestThatArrivesDuringTheStopWaitsForTheNextProcess(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	mayEnd := filepath.Join(t.TempDir(), "may-end")
	self, err := os.Executable()
	must(t, err)
	g, _, page := startObservedGate(t, &container{port: freePort(t)}, applicationMode+"=serve", "arguments -- "+self,
		"IDLE_STOP=100ms", "SERVING_READINESS_PROBE=", endsAfter+"="+mayEnd, l.setting())
	// With a readiness probe, the gate stops the application only after it has listened.
	g.awaitStdout("terminated with 0 open") // the application has received SIGTERM and still listens
	first := ""
	for first = range l.counts("start") {
	}
	c := dial(t, g)
	defer c.close()
	c.send(request("GET", "/pid?late"))
	eventually(t, "the request waits", func() bool { return figures(g, page)["queuegate_in_flight_requests"] == 1 })
	if n := l.counts("request")["late"]; n != 0 {
		t.Error("the request was sent to a process that had received its signal")
	}
	must(t, os.WriteFile(mayEnd, nil, 0o600))
	a := c.response("GET")
	if a.is(200, a.body); a.body == first {
		t.Error("the former process has responded")
	}
	if n := l.counts("request")["late"]; n != 1 {
		t.Errorf("the request was executed %d times", n)
	}
}

func TestTunnelsAndStreamsKeepAnApplicationAwake(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "IDLE_STOP=50ms")
	stream := dial(t, g)
	stream.send(request("GET", "/hold"))
	stream.head()
	// On a busy machine the application may have been stopped before the request /hold.
	// So the test counts only the stops from now on.
	stops := func() int { return strings.Count(g.Stderr.String(), "the application is idle: sending SIGTERM") }
	before := stops()
	first := g.fetch("/pid")
	time.Sleep(200 * time.Millisecond)
	tunnel := dial(t, g)
	tunnel.send(request("GET", "/tunnel", "Connection: Upgrade", "Upgrade: x"))
	tunnel.head()
	tunnel.expect("hello")
	g.fetch("/release")
	stream.chunked()
	stream.close()
	time.Sleep(200 * time.Millisecond)
	if stops() != before || g.fetch("/pid") != first {
		t.Error("the application was stopped while a stream or a tunnel was open")
	}
	tunnel.abort()
	g.fallsAsleep(before + 1)
}

func TestProbesReportReadyWithoutWakingTheApplication(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	g := startGateWithApplication(t, "IDLE_STOP=50ms", "SERVING_READINESS_PROBE=", "ADMIN_PORT=free", l.setting(),
		`KUBE_APP_PROBERS={"/app-health/web/livez":{"tcpSocket":{"port":1}}}`)
	g.fallsAsleep(1)
	for range 20 {
		for _, prober := range [][]string{kubelet, activator} {
			g.ask(prober).ready()
		}
	}
	if a := g.healthOf("/app-health/web/livez"); a.status != 200 || a.body != "asleep" {
		t.Errorf("application probe: status %d, %q", a.status, a.body)
	}
	if n := len(l.counts("start")); n != 1 {
		t.Errorf("%d starts", n)
	}
	g.fetch("/")
	g.becomesReady(kubelet)
}

func TestAReadinessProbeWakesTheApplicationIfConfigured(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	g := startGateWithApplication(t, "IDLE_STOP=100ms", "IDLE_WAKE_BY_PROBES=true", "SERVING_READINESS_PROBE=", "ADMIN_PORT=free", l.setting(),
		`KUBE_APP_PROBERS={"/app-health/web/livez":{"tcpSocket":{"port":1}},"/app-health/web/readyz":{"tcpSocket":{"port":1}}}`)
	g.fallsAsleep(1)
	g.ask([]string{"K-Network-Probe: probe", "K-Network-Hash: hash"}).is(200, "") // a network probe does not depend on readiness
	if a := g.healthOf("/app-health/web/livez"); a.status != 200 || a.body != "asleep" || len(l.counts("start")) != 1 {
		t.Errorf("application probe: status %d, %q, %d starts", a.status, a.body, len(l.counts("start")))
	}
	for _, ask := range []func(){
		func() { g.ask(activator).ready() },
		func() { g.becomesReady(kubelet) },
		func() {
			// /health/ready responds within 900 ms, even if the application needs longer
			// to start. So ask until the application is ready.
			eventually(t, "/health/ready", func() bool { return g.healthOf("/health/ready").status == 200 })
		},
		func() {
			if a := g.healthOf("/app-health/web/readyz"); a.status != 502 { // nothing listens on port 1
				t.Errorf("/app-health/web/readyz: status %d, %q", a.status, a.body)
			}
		},
	} {
		starts := len(l.counts("start"))
		g.fallsAsleep(starts) // each start is followed by one sleep
		ask()
		eventually(t, "the application starts", func() bool { return len(l.counts("start")) > starts })
	}
}

func TestACrashOfAnAwakeApplicationIsAnErrorWithIdleStop(t *testing.T) {
	t.Parallel()
	// The gate must notice the crash before the application counts as idle.
	g := startGateWithApplication(t, "IDLE_STOP=3s")
	g.fallsAsleep(1)
	c := dial(t, g)
	defer c.close()
	c.get("/exit")
	g.ends(3)
	if !strings.Contains(g.Stderr.String(), "the application has ended by itself: exit code 3") {
		t.Error("the log lacks the error")
	}
}
