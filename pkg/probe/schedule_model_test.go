//go:build !race

package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// simulate runs the adaptive schedule until it finds an application ready. The
// application begins to accept connections at the time given by the parameter accepts,
// and becomes ready at the time given by the parameter ready. Checks take no time.
//
// The first two results are the times of the first check that was accepted, and of the
// first check that succeeded. The third result has the times of all checks.
func simulate(accepts, ready time.Duration, waiting bool, jitter func() float64) (foundAccepting, foundReady time.Duration, attempts []time.Duration) {
	var h history
	for now := time.Duration(0); ; now += h.delay(now, waiting, jitter()) {
		attempts = append(attempts, now)
		e := refusing
		switch {
		case now >= ready:
			e = succeeding
		case now >= accepts:
			e = responding
		}
		h = h.withCheck(e, now)
		if e != refusing && foundAccepting == 0 {
			foundAccepting = now
		}
		if e == succeeding {
			return foundAccepting, now, attempts
		}
	}
}

var jitters = map[string]func() float64{
	"no jitter":      func() float64 { return 0 },
	"longest jitter": func() float64 { return 1 },
	"short jitter":   func() float64 { return -1 },
	"random jitter":  func() float64 { return 2*rand.Float64() - 1 },
}

func TestReadinessIsDetectedSoonAfterRefusedConnections(t *testing.T) {
	for name, jitter := range jitters {
		for start := 10 * time.Millisecond; start <= 10*time.Minute; start = time.Duration(float64(start) * 1.013) {
			found, _, _ := simulate(start, start, true, jitter)
			if late := found - start; late > 12*time.Millisecond {
				t.Fatalf("%s: start-up of %v with a caller waiting found %v late", name, start, late)
			}
			found, _, _ = simulate(start, start, false, jitter)
			budget := min(max(2*time.Millisecond, start*6/100), 275*time.Millisecond)
			if late := found - start; late > budget {
				t.Fatalf("%s: start-up of %v with no caller waiting found %v late, budget %v", name, start, late, budget)
			}
		}
	}
}

func TestReadinessIsDetectedSoonAfterFailedResponses(t *testing.T) {
	for name, jitter := range jitters {
		for _, accepts := range []time.Duration{0, 10 * time.Millisecond, time.Second, time.Minute} {
			for took := 10 * time.Millisecond; took <= 10*time.Minute; took = time.Duration(float64(took) * 1.03) {
				for _, waiting := range []bool{false, true} {
					accepting, found, _ := simulate(accepts, accepts+took, waiting, jitter)
					budget := max(12*time.Millisecond, took*6/100)
					if late := found - max(accepts+took, accepting); late > budget {
						t.Fatalf("%s: ready %v after accepting at %v found %v late, budget %v", name, took, accepts, late, budget)
					}
				}
			}
		}
	}
}

func TestAtMost20ChecksPerSecondReachTheApplicationAfterTheFirstSecond(t *testing.T) {
	for name, jitter := range jitters {
		_, _, attempts := simulate(0, 10*time.Minute, true, jitter)
		for i, from := range attempts {
			if from < time.Second {
				continue
			}
			n := 0
			for _, at := range attempts[i:] {
				if at-from >= time.Second {
					break
				}
				n++
			}
			if n > 20 {
				t.Fatalf("%s: %d attempts in the second from %v", name, n, from)
			}
		}
	}
}

func TestConnectionAttemptsPerSecondToAContainerThatRefusesThemAreLimited(t *testing.T) {
	for name, jitter := range jitters {
		_, _, attempts := simulate(time.Minute, time.Minute, true, jitter)
		perSecond := make(map[int]int)
		for _, at := range attempts {
			perSecond[int(at/time.Second)]++
		}
		for second, n := range perSecond {
			limit := 120
			if second < 2 {
				limit = []int{600, 170}[second]
			}
			if n > limit {
				t.Fatalf("%s: %d attempts in second %d, at most %d wanted", name, n, second, limit)
			}
		}
	}
}

func TestWaitingProbersAndRequestsUseTheSamePace(t *testing.T) {
	for elapsed := time.Duration(0); elapsed < 5*time.Second; elapsed += 7 * time.Millisecond {
		for name, jitter := range jitters {
			j := jitter()
			h := history{last: refusing, origin: time.Second}
			if got, want := h.delay(time.Second+elapsed, true, j), gate.QuickDelay(elapsed, j); got != want {
				t.Fatalf("%s: after %v the delay is %v, that of a request %v", name, elapsed, got, want)
			}
		}
	}
}

func TestATransitionOfCheckResultsRestartsTheDelaysOnlyTheFirstTime(t *testing.T) {
	var h history
	h = h.withCheck(refusing, time.Second)
	if h.origin != 0 {
		t.Fatalf("the first evidence moved the origin to %v", h.origin)
	}
	h = h.withCheck(accepting, 60*time.Second)
	if h.origin != 60*time.Second {
		t.Fatalf("the first change left the origin at %v", h.origin)
	}
	if d := h.delay(60*time.Second, false, 0); d != reachedMin {
		t.Fatalf("delay after the change is %v", d)
	}
	h = h.withCheck(responding, 61*time.Second)
	h = h.withCheck(accepting, 62*time.Second)
	h = h.withCheck(responding, 63*time.Second)
	if h.origin != 62*time.Second {
		t.Fatalf("a change seen before moved the origin to %v", h.origin)
	}
	if d := h.delay(63*time.Second, false, 0); d != 50*time.Millisecond {
		t.Fatalf("delay one second on is %v", d)
	}
}

func TestAFlappingContainerIsCheckedSlowlyUntilItHasBeenStable(t *testing.T) {
	h := history{}.withCheck(refusing, 0).withCheck(succeeding, 10*time.Second)
	flapped := h.withCheck(responding, 10*time.Second+500*time.Millisecond)
	for now := 11 * time.Second; now < 20*time.Second; now += 500 * time.Millisecond {
		flapped = flapped.withCheck(succeeding, now).withCheck(responding, now+250*time.Millisecond)
	}
	if d := flapped.delay(20*time.Second, false, 0); d < 200*time.Millisecond {
		t.Fatalf("flapping for 10 s leaves a delay of %v", d)
	}
	later := h.withCheck(responding, 15*time.Second)
	if d := later.delay(15*time.Second, false, 0); d != reachedMin {
		t.Fatalf("a failure after 5 s of success leaves a delay of %v", d)
	}
}

func TestTheIntervalBetweenChecksOfAReadyContainerGrowsTo30Seconds(t *testing.T) {
	h := history{}.withCheck(succeeding, 0)
	want := []time.Duration{1, 4, 16, 30, 30}
	for i, seconds := range want {
		if d := h.delay(0, true, 0); d != seconds*time.Second {
			t.Fatalf("after %d successes the delay is %v, want %d s", i+1, d, seconds)
		}
		if d := h.delay(0, false, 1); d > 30*time.Second {
			t.Fatalf("jitter stretches the delay to %v", d)
		}
		h = h.withCheck(succeeding, time.Duration(i)*time.Second)
	}
	if d := (history{last: succeeding, successes: math.MaxInt}).delay(0, false, 0); d != 30*time.Second {
		t.Fatalf("after very many successes the delay is %v", d)
	}
}

func TestTheAllowanceLimitsChecksForAnyNumberOfProbers(t *testing.T) {
	const period = time.Second
	run := func(kubelet func(i int) bool, background bool) int {
		a, n := allowance{period: period}, 0
		if background {
			a, n = a.spend(0), 1
		}
		for i := range 10_000 { // once per millisecond for 10 s
			now, k := time.Duration(i)*time.Millisecond, kubelet(i)
			if a.due(now, k) {
				a, n = a.spend(now), n+1
			}
		}
		return n
	}
	if n := run(func(int) bool { return false }, false); n != 10 {
		t.Errorf("callers alone cause %d probes in 10 periods, want 10", n)
	}
	if n := run(func(int) bool { return true }, false); n > 12 {
		t.Errorf("kubelets alone cause %d probes in 10 periods, want at most 12", n)
	}
	if n := run(func(i int) bool { return i%2 == 0 }, true); n > 12 {
		t.Errorf("both cause %d probes in 10 periods, want at most 12", n)
	}
}

func TestAKubeletProbeIsAlwaysDue(t *testing.T) {
	const period = 10 * time.Second
	for phase := time.Duration(0); phase < period; phase += 100 * time.Millisecond {
		a := allowance{period: period}.spend(0)
		for tick := range 50 {
			off := time.Duration((tick*37)%100-50) * time.Millisecond // the time of the kubelet's probe varies
			now := max(phase+time.Duration(tick)*period+off, 0)
			if !a.due(now, true) {
				t.Fatalf("tick %d at %v after a probe at 0 is not due", tick, now)
			}
			a = a.spend(now)
		}
	}
}
