package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const isFrozen = "the application is asleep until a request needs it: frozen"

// startGateThatFreezes skips the test if the gate cannot create a cgroup.
func startGateThatFreezes(t *testing.T, settings ...string) *gate {
	t.Helper()
	env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)), fmt.Sprintf("USER_PORT=%d", freePort(t)))
	if code, _, stderr := runQueue(t, env, "--idle-stop", "1m", "--idle-freeze", "--", "true"); code != 0 {
		const reason = "IDLE_FREEZE=true needs a cgroup that the gate may write to"
		if !strings.Contains(stderr, reason) {
			t.Fatalf("code %d, %s", code, stderr)
		}
		t.Skip(stderr[strings.Index(stderr, reason):])
	}
	return startGateWithApplication(t, append([]string{"IDLE_FREEZE=true"}, settings...)...)
}

// freezes waits for the nth freeze of the application.
func (g *gate) freezes(n int) {
	g.t.Helper()
	eventually(g.t, "the application is frozen", func() bool { return strings.Count(g.Stderr.String(), isFrozen) >= n })
}

func TestAFrozenApplicationIsThawedOnceForAllWaitingRequests(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	g := startGateThatFreezes(t, "IDLE_STOP=100ms", "THREADS=2", l.setting())
	first := g.fetch("/pid")
	g.freezes(1)
	pid, err := strconv.Atoi(first)
	must(t, err)
	must(t, syscall.Kill(pid, 0))
	const clients = 200
	var waiting sync.WaitGroup
	for i := range clients {
		c := dial(t, g)
		waiting.Go(func() {
			defer c.close()
			c.get("/?"+strconv.Itoa(i)).is(200, "ok")
		})
	}
	waiting.Wait()
	requests := l.counts("request")
	for i := range clients {
		if n := requests[strconv.Itoa(i)]; n != 1 {
			t.Errorf("request %d was executed %d times", i, n)
		}
	}
	if second := g.fetch("/pid"); second != first || len(l.counts("start")) != 1 {
		t.Errorf("process %s, then %s, %d starts", first, second, len(l.counts("start")))
	}
}

func TestRequestsThatArriveAroundTheFreezeAreExecutedExactlyOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const idle = 20 * time.Millisecond
	g := startGateThatFreezes(t, "IDLE_STOP="+idle.String(), "THREADS=2", l.setting())
	g.getsBurstsAt(idle, l)
	var awake, frozen []time.Duration
	timed := func() time.Duration {
		c := dial(t, g)
		defer c.close()
		began := time.Now()
		c.get("/").is(200, "ok")
		return time.Since(began)
	}
	for range 100 {
		before := strings.Count(g.Stderr.String(), isFrozen)
		awake = append(awake, timed())
		g.freezes(before + 1)
		frozen = append(frozen, timed())
	}
	slices.Sort(awake)
	slices.Sort(frozen)
	t.Logf("latency awake: p50 %v, p95 %v; frozen: p50 %v, p95 %v", awake[50], awake[95], frozen[50], frozen[95])
}

func TestADrainThawsTheApplication(t *testing.T) {
	t.Parallel()
	// An empty SERVING_READINESS_PROBE selects the default probe. With a probe, the gate
	// freezes the application only after the application has begun to listen. By then the
	// application handles SIGTERM, and so it exits with the code applicationExit.
	g := startGateThatFreezes(t, "IDLE_STOP=50ms", "DRAIN_QUIET_SECONDS=0", "SERVING_READINESS_PROBE=")
	g.freezes(1)
	g.signal(syscall.SIGTERM)
	g.ends(applicationExit)
	g.awaitStdout("terminated with 0 open")
}

func TestAFrozenApplicationEndsWhenTheGateIsKilled(t *testing.T) {
	t.Parallel()
	if text, _ := os.ReadFile("/proc/self/mountinfo"); !strings.Contains(string(text), " - cgroup2 ") {
		t.Skip("without cgroup v2, a frozen process ends only when it is thawed")
	}
	g := startGateThatFreezes(t, "IDLE_STOP=50ms")
	pid, err := strconv.Atoi(g.fetch("/pid"))
	must(t, err)
	g.freezes(1)
	g.mayEnd = true
	g.signal(syscall.SIGKILL)
	eventually(t, "the application is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}
