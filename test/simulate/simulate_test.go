package simulate

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // memory use is low
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// TestASimulatedGateHasNoFaultForRandomSeeds runs new seeds for the time SIMTIME, or
// prints the trace of SEED. FIRST is the first seed, SEEDS the maximum number of seeds,
// and SIMCPU the limit on processor time. With GO_ON the test continues after a
// finding.
func TestASimulatedGateHasNoFaultForRandomSeeds(t *testing.T) {
	if text := os.Getenv("SEED"); text != "" {
		runSeed(t, text, os.Getenv("CHANGES"))
		return
	}
	period := 5 * time.Second
	if os.Getenv("CI") != "" {
		period = 20 * time.Second
	}
	if text := os.Getenv("SIMTIME"); text != "" {
		var err error
		if period, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SIMTIME: %v", err)
		}
	}
	first, most := uint64(time.Now().UnixNano())%1e12*1000, 1<<62
	if os.Getenv("SIMTIME") == "" { // without SIMTIME the seeds are always the same
		first, most = 1, 1000
	}
	if text := os.Getenv("FIRST"); text != "" {
		first = number(t, text)
	}
	if text := os.Getenv("SEEDS"); text != "" {
		most = int(number(t, text))
	}
	t.Logf("%s of seeds from %d on: make simulate SIMTIME=%[1]s FIRST=%[2]d", period, first)
	processor := time.Duration(math.MaxInt64)
	if text := os.Getenv("SIMCPU"); text != "" {
		var err error
		if processor, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SIMCPU: %v", err)
		}
	}
	s := &series{most: most, processor: processor, deadline: time.Now().Add(period), began: time.Now(), used: processorTime(), next: first, goOn: os.Getenv("GO_ON") != "", kinds: map[string]int{}, runs: map[*testing.T]underWay{}}
	defer s.watch()()
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				s.work(t)
			})
		}
	})
	s.report(t)
	for kind, n := range s.kinds {
		t.Logf("%d × %s", n, kind)
	}
	if s.failed != nil {
		if os.Getenv("SHRINK") != "no" {
			t.Logf("%s", explain(t, shrink(t, s.failed)))
		}
		t.Fatalf("seed %d: %s", s.failed.seed, s.failed.fault)
	}
}

func number(t *testing.T, text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runSeed runs a seed and prints its trace.
func runSeed(t *testing.T, seed, text string) {
	c, err := parseChanges(text)
	if err != nil {
		t.Fatal(err)
	}
	res := simulate(number(t, seed), true, c)
	fmt.Println(strings.Join(res.trace, "\n"))
	fmt.Printf("%d requests, %d exchanges, %v simulated, trace %x\n", res.requests, res.exchanges, res.simulated, res.hash)
	if res.fault != "" {
		t.Fatalf("seed %s: %s", seed, res.fault)
	}
}

// series runs many seeds on several workers.
type series struct {
	mu        sync.Mutex
	began     time.Time
	used      time.Duration // processor time at the start
	deadline  time.Time
	processor time.Duration // limit on processor time
	next      uint64
	most      int // maximum number of seeds
	seeds     int
	exchanges int
	over2     int // number of exchanges over HTTP/2
	simulated time.Duration
	outcomes  [64]int
	reported  time.Time
	failed    *result
	goOn      bool // continue after a finding
	kinds     map[string]int
	runs      map[*testing.T]underWay // current run of each worker
}

func (s *series) work(t *testing.T) {
	for {
		now := processorTime()
		s.mu.Lock()
		seed := s.next
		s.next++
		isDone := s.seeds >= s.most || s.failed != nil && !s.goOn || time.Now().After(s.deadline) || now > s.processor
		if !isDone {
			s.runs[t] = underWay{seed, now}
		}
		s.mu.Unlock()
		if isDone {
			return
		}
		res := simulate(seed, false, nil)
		s.mu.Lock()
		delete(s.runs, t)
		s.seeds++
		s.exchanges += res.exchanges
		s.over2 += res.over2
		s.simulated += res.simulated
		for i, n := range res.outcomes {
			s.outcomes[i] += n
		}
		if res.fault != "" {
			if s.kinds[withoutNumbers(res.fault)]++; s.kinds[withoutNumbers(res.fault)] <= 3 && s.goOn {
				fmt.Printf("seed %d: %s\n", res.seed, res.fault)
			}
		}
		if res.fault != "" && (s.failed == nil || res.seed < s.failed.seed) {
			s.failed = &res
		}
		if now := time.Now(); now.Sub(s.reported) > 10*time.Second {
			s.reported = now
			fmt.Println(s)
		}
		s.mu.Unlock()
	}
}

// endless is the processor time after which watch considers a run stuck. The process
// normally completes thousands of runs in this time.
const endless = 20 * time.Second

type underWay struct {
	seed  uint64
	began time.Duration // processor time at the start
}

// watch panics with the seed of a stuck run, because nothing else can stop an iteration.
func (s *series) watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(endless / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
			s.mu.Lock()
			for _, u := range s.runs {
				if processorTime()-u.began > endless {
					panic(fmt.Sprintf("seed %d: an iteration of a loop does not end", u.seed))
				}
			}
			s.mu.Unlock()
		}
	}()
	return func() { close(done) }
}

// String reports the progress of the series.
func (s *series) String() string {
	d, cpu := time.Since(s.began).Seconds(), (processorTime() - s.used).Seconds()
	return fmt.Sprintf("%6.0f s: %d seeds (%.0f/s), %d exchanges (%.0f/s; %.0f per second of processor time), %s simulated",
		d, s.seeds, float64(s.seeds)/d, s.exchanges, float64(s.exchanges)/d, float64(s.exchanges)/cpu, s.simulated.Round(time.Second))
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (s *series) report(t *testing.T) {
	t.Logf("%s", s)
	t.Logf("%d over HTTP/2; outcomes: %s", s.over2, outcomeNames(s.outcomes))
}

// TestTheSameSeedGivesTheSameTrace runs each seed twice while other seeds run.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	seeds := []uint64{4039214167274496523} // this seed once gave three different traces
	for i := range 200 {
		seeds = append(seeds, uint64(i+1))
	}
	workers := 2 * runtime.GOMAXPROCS(0)
	for i := range workers {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for n := i; n < len(seeds); n += workers {
				seed := seeds[n]
				a, b := simulate(seed, true, nil), simulate(seed, true, nil)
				if a.hash != b.hash || strings.Join(a.trace, "\n") != strings.Join(b.trace, "\n") {
					t.Fatalf("seed %d: two traces, %x and %x", seed, a.hash, b.hash)
				}
				if n%5 != 0 { // run only every fifth seed once more with tracing turned off
					continue
				}
				if c := simulate(seed, false, nil); c.hash != a.hash {
					t.Fatalf("seed %d: %x without a trace, %x with one", seed, c.hash, a.hash)
				}
			}
		})
	}
}

// TestASimulatedGateHasNoFaultForSeedsThatHaveFailed runs seeds that once found a
// fault. A seed reproduces its run only if the simulation makes the same random
// choices.
func TestASimulatedGateHasNoFaultForSeedsThatHaveFailed(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		seed, found, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || seed == "#" {
			continue
		}
		if res := simulate(number(t, seed), false, nil); res.fault != "" {
			t.Errorf("seed %s: %s (first found: %s)", seed, res.fault, found)
		}
	}
}
