package admission

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// concurrencyLimiter is a limiter that runs with the container model.
type concurrencyLimiter interface {
	Limit() int
	AddSample(now, took int64, failed bool, inFlight int) (limit int, moved bool)
}

type fixedLimit int

func (f fixedLimit) Limit() int                                    { return int(f) }
func (fixedLimit) AddSample(_, _ int64, _ bool, _ int) (int, bool) { return 0, false }

// containerModel is a container that shares its capacity among n concurrent requests. If
// n is at most slots, each request runs at full speed. If n is larger than slots, each
// request runs at (slots/n)^(1+collapse) of full speed. With collapse 0 the throughput
// then does not depend on n. With collapse 1 it halves when n doubles.
type containerModel struct {
	name     string
	service  float64 // mean time of a request that runs at full speed, in ns
	slots    func(at int64) float64
	collapse float64
	demand   func(*rand.Rand) float64 // work of a request, as a multiple of the mean
	// hard marks a container that serves few requests, or requests that differ widely.
	// A trial then takes long, so the tests accept worse results.
	hard bool
}

func always(n float64) func(int64) float64 { return func(int64) float64 { return n } }

func constant(*rand.Rand) float64        { return 1 }
func logNormal(r *rand.Rand) float64     { return math.Exp(r.NormFloat64()*0.3 - 0.045) }
func exponential(r *rand.Rand) float64   { return r.ExpFloat64() }
func mostlyShorter(r *rand.Rand) float64 { return []float64{5.0 / 9, 5}[r.IntN(10)/9] }

type modelRequest struct {
	// ends is the value of the variable progress of runQueue at which the request ends.
	ends           float64
	began, arrived int64
}

type modelRequests []modelRequest

func (h modelRequests) Len() int           { return len(h) }
func (h modelRequests) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h modelRequests) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *modelRequests) Push(x any)        { *h = append(*h, x.(modelRequest)) }
func (h *modelRequests) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	*h = (*h)[:last]
	return r
}

// modelRun is the result of a run.
type modelRun struct {
	goodput float64       // requests per second
	p99     time.Duration // latency from the grant of the slot
	total   time.Duration // p99 of the latency from arrival
	limits  []int         // every 250 ms
}

// run simulates the container with a queue capacity of 1,000. The parameter load is the
// rate of requests as a multiple of the capacity of the container. The parameter last
// is the duration of the simulation.
func (m *containerModel) run(load float64, l concurrencyLimiter, last time.Duration, seed uint64) modelRun {
	return m.runQueue(load, l, 1000, last, seed, nil)
}

// runQueue is like run, but with the given queue capacity. The results for latency and
// goodput exclude the first 5 s. If stop is not nil, runQueue calls it every 250 ms
// with all limits so far. If stop returns true, the simulation ends.
func (m *containerModel) runQueue(load float64, l concurrencyLimiter, capacity int, last time.Duration, seed uint64, stop func(limits []int) bool) (r modelRun) {
	const warm = int64(5 * time.Second)
	random := rand.New(rand.NewPCG(seed, 7))
	rate := load * m.slots(0) / m.service
	next := int64(random.ExpFloat64() / rate)
	limit := l.Limit()
	now, progress := int64(0), 0.0
	var working modelRequests
	var queue, latencies, total []int64
	speed, speedOf := 1.0, [2]float64{}
	for now < int64(last) {
		if share := [2]float64{m.slots(now), float64(len(working))}; share != speedOf {
			speed, speedOf = 1.0, share
			if share[1] > share[0] {
				speed = math.Pow(share[0]/share[1], 1+m.collapse)
			}
		}
		ends := int64(math.MaxInt64)
		if len(working) > 0 {
			ends = now + int64((working[0].ends-progress)/speed) + 1
		}
		at := min(ends, next)
		progress += float64(at-now) * speed
		now = at
		for int64(len(r.limits))*int64(250*time.Millisecond) <= now {
			r.limits = append(r.limits, limit)
			if stop != nil && stop(r.limits) {
				return r
			}
		}
		if now == ends {
			inFlight := len(working)
			q := heap.Pop(&working).(modelRequest)
			if n, moved := l.AddSample(now, now-q.began, false, inFlight); moved {
				limit = n
			}
			if now > warm {
				latencies = append(latencies, now-q.began)
				total = append(total, now-q.arrived)
			}
		} else {
			next = now + int64(random.ExpFloat64()/rate) + 1
			if len(queue) < capacity {
				queue = append(queue, now)
			}
		}
		for len(queue) > 0 && len(working) < limit {
			heap.Push(&working, modelRequest{progress + m.service*m.demand(random), now, queue[0]})
			queue = queue[1:]
		}
	}
	slices.Sort(latencies)
	slices.Sort(total)
	r.goodput = float64(len(latencies)) / (float64(int64(last)-warm) / 1e9)
	if n := len(latencies); n > 0 {
		r.p99, r.total = time.Duration(latencies[n*99/100]), time.Duration(total[n*99/100])
	}
	return r
}

// best tries fixed limits from 3/4 to 3/2 of the slots, at a load of three times the
// capacity. It returns the highest goodput and the limit that reached it.
func (m *containerModel) best() (goodput float64, limit int) {
	slots := int(m.slots(0))
	for n := max(1, slots*3/4); n <= slots*3/2; n += max(1, slots/8) {
		if g := m.run(3, fixedLimit(n), 9*time.Second, 1).goodput; g > goodput {
			goodput, limit = g, n
		}
	}
	return goodput, limit
}

var containerModels = []containerModel{
	{"8 slots of 20 ms, constant", 20e6, always(8), 1, constant, false},
	{"8 slots of 20 ms, exponential", 20e6, always(8), 1, exponential, true},
	{"8 slots of 50 ms, milder collapse", 50e6, always(8), 0.5, logNormal, false},
	{"32 slots of 10 ms, constant", 10e6, always(32), 1, constant, false},
	{"32 slots of 10 ms, log-normal", 10e6, always(32), 1, logNormal, false},
	{"32 slots of 10 ms, exponential", 10e6, always(32), 1, exponential, false},
	{"32 slots of 10 ms, a tenth nine times longer", 10e6, always(32), 1, mostlyShorter, false},
	{"200 slots of 20 ms", 20e6, always(200), 1, logNormal, false},
	{"500 slots of 50 ms, exponential, milder collapse", 50e6, always(500), 0.5, exponential, false},
	{"8 slots of 5 ms, no collapse", 5e6, always(8), 0, logNormal, false},
	{"4 processors, 10 ms, no collapse", 10e6, always(4), 0, logNormal, false},
	{"2 processors, 5 ms, exponential, no collapse", 5e6, always(2), 0, exponential, true},
	{"2 processors, 100 ms, no collapse", 100e6, always(2), 0, logNormal, true},
	{"1 processor, 20 ms, constant, no collapse", 20e6, always(1), 0, constant, false},
}

// The container becomes slower for a reason other than the limit, such as its database.
// The limit must then recover from a trial of lower limits, so that the container is
// not starved.
func TestALatencyNotCausedByTheLimitBecomesTheBaseline(t *testing.T) {
	a := NewAutoLimit(DefaultLimitRange)
	random := rand.New(rand.NewPCG(1, 1))
	now, limit := int64(0), a.Limit()
	feed := func(seconds int, latency float64) (lowest int) {
		lowest = math.MaxInt
		for end := now + int64(seconds)*1e9; now < end; {
			now += int64(latency / float64(limit))
			if n, moved := a.AddSample(now, int64(latency*(0.9+0.2*random.Float64())), false, min(limit, 100)); moved {
				limit = n
			}
			lowest = min(lowest, limit)
		}
		return lowest
	}
	feed(10, 10e6)
	before := limit
	if before < 90 {
		t.Fatalf("a limit of %d before, want a limit that allows 100 in flight", before)
	}
	lowest := feed(20, 40e6)
	if limit < before*3/4 {
		t.Fatalf("the limit was %d and is %d (lowest %d) although it has no influence on latency", before, limit, lowest)
	}
}

// Failures lower the limit, unless the container fails independently of the limit.
func TestOnlyFailuresThatDependOnTheLimitLowerIt(t *testing.T) {
	a := NewAutoLimit(DefaultLimitRange)
	random := rand.New(rand.NewPCG(1, 1))
	now, limit := int64(0), a.Limit()
	feed := func(seconds int, fails func(limit int) float64) (lowest int) {
		lowest = math.MaxInt
		for end := now + int64(seconds)*1e9; now < end; {
			now += int64(10e6 / float64(limit))
			if n, moved := a.AddSample(now, 10e6, random.Float64() < fails(limit), min(limit, 60)); moved {
				limit = n
			}
			lowest = min(lowest, limit)
		}
		return lowest
	}
	feed(10, func(int) float64 { return 0 })
	if limit < 60 {
		t.Fatalf("a limit of %d before, want 60 or more", limit)
	}
	feed(10, func(limit int) float64 { // the container fails if the limit is above 20
		return max(0, 1-20/float64(limit))
	})
	if limit < 12 || limit > 34 {
		t.Fatalf("a limit of %d for a container that fails above 20", limit)
	}
	feed(10, func(int) float64 { return 0 })
	grown := limit
	feed(20, func(int) float64 { return 0.5 }) // half of the requests fail at any limit
	if limit < grown/2 {
		t.Fatalf("the limit was %d and is %d although failures do not depend on it", grown, limit)
	}
}

// The first baseline is measured while the machine is idle. Later a single request
// takes 1.3 times as long, so even the lowest limit cannot reach the cost of that
// baseline. The limit must recover nevertheless.
func TestTheLimitRecoversFromABaselineThatIsTooLow(t *testing.T) {
	a := NewAutoLimit(LimitRange{1, 100})
	now, limit := int64(0), a.Limit()
	feed := func(seconds int, latency func(limit int) float64) (lowest int) {
		lowest = limit
		for end := now + int64(seconds)*1e9; now < end; {
			took := latency(limit)
			now += int64(took / float64(limit))
			if n, moved := a.AddSample(now, int64(took), false, limit); moved {
				limit = n
			}
			lowest = min(lowest, limit)
		}
		return lowest
	}
	slower := func(limit int) float64 { return 20e6 * max(1, float64(limit)/8) }
	feed(5, slower)
	// For 5 s the machine is busy. Even at a limit of 1, a request takes longer than at
	// the baseline. A lower limit still makes each request faster, so AutoLimit lowers
	// the limit to 1 or 2.
	low := feed(5, func(limit int) float64 { return 20e6 * (1.5 + float64(limit)) })
	feed(20, func(limit int) float64 { return 1.3 * slower(limit) })
	if low > 2 || limit < 6 {
		t.Fatalf("the limit was %d and is %d, want it to recover to 8", low, limit)
	}
}

func TestALimitStaysWithinItsRange(t *testing.T) {
	m := containerModels[4]
	for _, r := range []LimitRange{{1, 5}, {40, 45}, {7, 7}} {
		for i, n := range m.run(10, NewAutoLimit(r), 10*time.Second, 1).limits {
			if n < r.Min || n > r.Max {
				t.Fatalf("%v: a limit of %d after %d ms", r, n, 250*i)
			}
		}
	}
	for _, bad := range []string{"", "5", "0-5", "6-5", "1-", "-1-5", "1-2000000", "a-b"} {
		if r, err := ParseLimitRange(bad); err == nil {
			t.Errorf("%q is parsed as %v", bad, r)
		}
	}
	if r, err := ParseLimitRange("2-64"); err != nil || r != (LimitRange{2, 64}) {
		t.Errorf("2-64 is parsed as %v, %v", r, err)
	}
}

// All slots are taken by requests that do not end, so readiness checks are the only samples.
func TestSlowerReadinessChecksLowerTheLimit(t *testing.T) {
	a := NewAutoLimit(LimitRange{3, 100})
	now, limit := int64(0), a.Limit()
	for now < 5e9 {
		now += int64(10e6 / float64(limit))
		if n, moved := a.AddSample(now, 10e6, false, min(limit, 30)); moved {
			limit = n
		}
	}
	if limit < 30 {
		t.Fatalf("a limit of %d before, want 30 or more", limit)
	}
	probe := func(took float64) int {
		now += int64(time.Second)
		n, _ := a.AddCheck(now, int64(took), a.Limit())
		return n
	}
	for range 10 {
		probe(1e6)
	}
	if n := probe(40e6); n != limit || probe(1e6) != limit {
		t.Fatalf("one slow check changes the limit from %d to %d", limit, n)
	}
	for range 20 {
		if n, moved := a.AddCheck(now, int64(1e9), limit/2); moved {
			t.Fatalf("slow checks change the limit to %d although half of it is in use", n)
		}
	}
	for range 60 {
		probe(1e6)
	}
	probe(40e6)
	if n := probe(40e6); float64(n) > 0.8*float64(limit) {
		t.Errorf("a limit of %d after two slow checks, was %d", n, limit)
	}
	for range 20 {
		probe(80e6 + float64(now%7))
	}
	if n := probe(80e6); n < 3 || n >= limit/2 {
		t.Errorf("a limit of %d after many slow checks, was %d", n, limit)
	}
	// The checks have become slow for another reason than the limit: requests take as long
	// as before.
	low := a.Limit()
	for end := now + 20e9; now < end; {
		now += int64(10e6 / float64(a.Limit()))
		a.AddSample(now, 10e6, false, min(a.Limit(), 30))
	}
	if a.Limit() < 30 {
		t.Errorf("the limit was %d, fell to %d, and is %d although the cost of requests has not changed", limit, low, a.Limit())
	}
}

func TestASampleDoesNotAllocate(t *testing.T) {
	a := NewAutoLimit(DefaultLimitRange)
	now := int64(0)
	if n := testing.AllocsPerRun(10000, func() {
		now += 1e6
		a.AddSample(now, 1e6, false, 3)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkLimitSample(b *testing.B) {
	a := NewAutoLimit(DefaultLimitRange)
	now := int64(0)
	for b.Loop() {
		now += 1e5
		a.AddSample(now, 1e6, false, 3)
	}
}
