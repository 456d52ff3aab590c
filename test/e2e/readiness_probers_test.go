package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// probers is the number of concurrent probers. On a slow machine they all wait for
	// the same check. The number is below 512, because the gate rejects further probers
	// while 512 of the same kind wait.
	probers = 500
	// probeInterval is the activator's interval.
	probeInterval = 200 * time.Millisecond
)

// probingTime is the duration of the probing: QUEUEGATE_PROBER_SECONDS, or 1.5 s.
func probingTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("QUEUEGATE_PROBER_SECONDS")
	if text == "" {
		return 1500 * time.Millisecond
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("QUEUEGATE_PROBER_SECONDS=%s: want a number of seconds", text)
	}
	return time.Duration(n) * time.Second
}

func TestManyProbersCauseNoMoreChecksThanOne(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, probe string
		status      int32                        // of the application
		most        func(span time.Duration) int // maximum number of checks within the given span
		settings    []string
	}{
		// The gate makes one check per READINESS_FRESHNESS (1 s). Two more checks are
		// allowed: one at the beginning of the measured time and one at its end.
		{"adaptive, ready", adaptiveHTTP, 200, func(span time.Duration) int { return int(span/time.Second) + 2 }, nil},
		// In the first 0.2 s the interval between checks is 10 ms. Later it is 5 % of the
		// elapsed time. The jitter shortens each interval by up to 10 %. This makes fewer
		// than 70 checks in the first second, and at most 22 in each further second.
		{"adaptive, failing", adaptiveHTTP, 503, func(span time.Duration) int { return 70 + 22*int(span/time.Second+1) }, []string{"READINESS_WAIT=100ms"}},
		{"periodic, ready", periodic(""), 200, func(span time.Duration) int { return int(span/time.Second) + 3 }, nil},
		{"periodic, failing", periodic(""), 503, func(span time.Duration) int { return int(span/(200*time.Millisecond)) + 2 }, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := newApp(t)
			a.status.Store(x.status)
			a.listen(a.website)
			x.settings = append(x.settings, "THREADS=1")
			g := startGateFor(t, a, x.probe, x.settings...)
			eventually(t, "the application is probed", func() bool { return len(g.changes()) > 0 })
			fds := g.descriptors()
			sockets := socketsOf(t, a.port)

			start := time.Now()
			before := a.count()
			sent := probeTogether(t, g, int(x.status))
			span := time.Since(start)
			probes := a.count() - before
			t.Logf("%d probers sent %d probes in %v: %d checks", probers, sent, span, probes)
			if probes > x.most(span) {
				t.Errorf("the application saw %d probes in %v, allowed are %d", probes, span, x.most(span))
			}
			// A check leaves a socket in TIME_WAIT if the application closes the
			// connection late, as in TestHTTPChecksLeaveNoSocketsBehind. A few more checks
			// may be in progress.
			if now := socketsOf(t, a.port); now > sockets+probes+4 {
				t.Errorf("%d sockets with the application's port, TIME_WAIT included; %d before", now, sockets)
			}
			eventually(t, "all descriptors of the probers are closed", func() bool { return g.descriptors() <= fds+2 })
			idle := idleGoroutines(t, a, x.probe, x.settings)
			for creator, n := range g.goroutines() {
				// The numbers of goroutines are compared with those of an idle gate. One
				// more goroutine is allowed, because a check may be in progress. One more
				// coroutine (iter.Pull) is allowed for each prober, because the event
				// loop keeps unused coroutines for some seconds.
				idleCoroutines := 1
				if strings.HasPrefix(creator, "iter.Pull") {
					idleCoroutines = probers
				}
				if n > idle[creator]+idleCoroutines {
					t.Errorf("%d goroutines started by %s, %d in a gate without callers", n, creator, idle[creator])
				}
			}
		})
	}
}

// probeTogether runs all probers, each on its own connection, and returns the number of
// probes. Every response must have this status.
func probeTogether(t *testing.T, g *gate, status int) int64 {
	t.Helper()
	want := fmt.Sprintf("HTTP/1.1 %d ", status)
	end := time.Now().Add(probingTime(t))
	var sent atomic.Int64
	var first atomic.Value // first error
	var all sync.WaitGroup
	for i := range probers {
		all.Go(func() {
			c, err := net.Dial("tcp", g.addr)
			if err != nil {
				first.CompareAndSwap(nil, err.Error())
				return
			}
			defer c.Close()
			response := make([]byte, 4<<10)
			for next := time.Now().Add(probeInterval * time.Duration(i) / probers); next.Before(end); next = next.Add(probeInterval) {
				<-time.After(time.Until(next))
				_ = c.SetDeadline(time.Now().Add(testTimeout))
				if _, err = c.Write([]byte(request("GET", "/healthz", activator...))); err == nil {
					var n int
					n, err = c.Read(response)
					if err == nil && !strings.HasPrefix(string(response[:n]), want) {
						err = fmt.Errorf("got %s", shorten(string(response[:n])))
					}
				}
				if err != nil {
					first.CompareAndSwap(nil, err.Error())
					return
				}
				sent.Add(1)
			}
		})
	}
	all.Wait()
	if fault := first.Load(); fault != nil {
		t.Errorf("a prober: %v", fault)
	}
	return sent.Load()
}

// descriptors counts the gate's open files.
func (g *gate) descriptors() int {
	g.t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Cmd.Process.Pid))
	must(g.t, err)
	return len(all)
}

// socketsOf counts the connections to a port of 127.0.0.1 in any state, TIME_WAIT
// included.
func socketsOf(t *testing.T, port int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/tcp")
	must(t, err)
	const listening = "0A"
	end, n := fmt.Sprintf(":%04X", port), 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] != listening && (strings.HasSuffix(f[1], end) || strings.HasSuffix(f[2], end)) {
			n++
		}
	}
	return n
}

// started matches the function that started a goroutine.
var started = regexp.MustCompile(`(?m)^created by (\S+)`)

// goroutines ends the gate with SIGQUIT, which prints all goroutines, and counts them by
// the function that started them.
func (g *gate) goroutines() map[string]int {
	g.t.Helper()
	g.mayEnd = true
	g.signal(syscall.SIGQUIT)
	g.exitCode()
	count := map[string]int{}
	for _, m := range started.FindAllStringSubmatch(g.Stderr.String(), -1) {
		if !strings.HasPrefix(m[1], "runtime.") {
			count[m[1]]++
		}
	}
	if len(count) == 0 {
		g.t.Fatalf("no goroutines in the dump:\n%s", g.Stderr.String())
	}
	return count
}

// idleGoroutines counts the goroutines of a gate after one probe.
func idleGoroutines(t *testing.T, a *app, probe string, settings []string) map[string]int {
	t.Helper()
	g := startGateFor(t, a, probe, settings...)
	eventually(t, "the application is probed", func() bool { return len(g.changes()) > 0 })
	g.ask(activator)
	return g.goroutines()
}

func TestHTTPChecksLeaveNoSocketsBehind(t *testing.T) {
	t.Parallel()
	for _, serve := range []func(a *app) server{
		func(a *app) server { return a.website },
		func(*app) server { return http1(func(http.ResponseWriter, *http.Request) {}) },
	} {
		a := newApp(t)
		a.listen(serve(a))
		g := startGateFor(t, a, adaptiveHTTP, "READINESS_FRESHNESS=1ms")
		c := dial(t, g)
		// A check leaves no socket behind if the application closes the connection first.
		// On a busy machine the application may close too late. The gate then closes
		// first, which leaves a socket in TIME_WAIT. The test allows this for half of the
		// checks of a round, and needs only one good round.
		const round = 200
		left := round
		for range 10 {
			probes, sockets := a.count(), socketsOf(t, a.port)
			eventually(t, "the application has been probed 200 times", func() bool {
				c.get("/", activator...).ready()
				<-time.After(time.Millisecond)
				return a.count() >= probes+round
			})
			if left = socketsOf(t, a.port) - sockets; left <= round/2 {
				break
			}
		}
		if left > round/2 {
			t.Errorf("%d sockets are left after %d probes", left, round)
		}
	}
}
