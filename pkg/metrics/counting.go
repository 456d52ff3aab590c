package metrics

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Window is the period over which averages and rates are computed.
const Window = time.Second

// keptWindows is the number of windows that accept events: the current window and the
// three before. A goroutine may be delayed between reading the clock and counting.
const keptWindows = 4

// Counting computes the exact time integral of the number of requests in flight, for
// all requests and for those proxied by the activator.
//
// A request that begins at time a adds windowEnd-a to the area of its window, and one
// to the number of requests of every later window. Its end subtracts windowEnd-end and
// one. Goroutines may count events in any order. An event older than the kept windows
// is counted at the beginning of the oldest kept window, so its area is inexact.
//
// The zero value is ready. All methods are safe for concurrent use. All times are on
// one monotonic clock that began at 0.
type Counting struct {
	newest atomic.Int64 // number of the newest kept window
	_      [56]byte     // padding: each event reads newest and writes a countSlot, so they must not share a cache line

	slots [keptWindows]countSlot // window n is in slots[n % keptWindows]

	roll     sync.Mutex // guards the fields below, and changes of newest
	carried  int64      // number of requests in flight when the oldest kept window began
	carriedP int64      // number of proxied requests in carried
}

// countSlot has the counts of one window. It fills one cache line.
type countSlot struct {
	all, proxied tally
	_            [32]byte
}

type tally struct {
	area   atomic.Int64  // in ns; only from events within the window
	counts atomic.Uint64 // arrivals in the low 32 bits, ends in the high 32 bits; enough for 4e9 per second
}

const endUnit = 1 << 32

func (t *tally) read() (area, arrivals, net int64) {
	counts := t.counts.Load()
	arrivals = int64(uint32(counts))
	return t.area.Load(), arrivals, arrivals - int64(counts>>32)
}

// retire resets t for its next window. It returns arrivals minus ends.
func (t *tally) retire() int64 {
	counts := t.counts.Swap(0)
	t.area.Store(0)
	return int64(uint32(counts)) - int64(counts>>32)
}

// Begin counts a request that arrived at time at.
func (c *Counting) Begin(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(rest)
	s.all.counts.Add(1)
	if proxied {
		s.proxied.area.Add(rest)
		s.proxied.counts.Add(1)
	}
}

// End counts the end of a request at time at. Call it once for each Begin, with the
// same value of proxied.
func (c *Counting) End(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(-rest)
	s.all.counts.Add(endUnit)
	if proxied {
		s.proxied.area.Add(-rest)
		s.proxied.counts.Add(endUnit)
	}
}

// slot returns the window that contains at, and the ns from at to the end of that
// window.
func (c *Counting) slot(at time.Duration) (s *countSlot, rest int64) {
	at = max(at, 0)
	n := int64(at / Window)
	newest := c.newest.Load()
	if n > newest {
		newest = c.rollTo(n)
	}
	rest = (n+1)*int64(Window) - int64(at)
	if oldest := newest - keptWindows + 1; n < oldest {
		n, rest = oldest, int64(Window)
	}
	return &c.slots[n%keptWindows], rest
}

func (c *Counting) rollTo(n int64) int64 {
	c.roll.Lock()
	defer c.roll.Unlock()
	return c.advance(n)
}

// advance makes n the newest window unless a newer one exists. It returns the newest
// window. The caller holds roll.
func (c *Counting) advance(n int64) int64 {
	newest := c.newest.Load()
	if n <= newest {
		return newest
	}
	for k := int64(1); k <= min(n-newest, keptWindows); k++ {
		s := &c.slots[(newest+k)%keptWindows]
		c.carried += s.all.retire()
		c.carriedP += s.proxied.retire()
	}
	// Publish n last, so that a goroutine that reads n finds empty slots.
	c.newest.Store(n)
	return n
}

// Averages are the values of one window.
type Averages struct {
	Concurrency        float64 // average number of requests in flight
	ProxiedConcurrency float64
	Arrivals           float64 // arrivals per second
	ProxiedArrivals    float64
}

// LastWindow returns the values of the last complete window at now, or zero if there is
// none.
func (c *Counting) LastWindow(now time.Duration) Averages {
	n := int64(now/Window) - 1
	if n < 0 {
		return Averages{}
	}
	c.roll.Lock()
	defer c.roll.Unlock()
	oldest := max(c.advance(n+1)-keptWindows+1, 0)
	n = max(n, oldest) // the reader may be delayed
	all, proxied := c.carried, c.carriedP
	area, arrivals, _ := c.slots[n%keptWindows].all.read()
	areaP, arrivalsP, _ := c.slots[n%keptWindows].proxied.read()
	for k := n - 1; k >= oldest; k-- {
		all += c.slots[k%keptWindows].all.net()
		proxied += c.slots[k%keptWindows].proxied.net()
	}
	return Averages{
		Concurrency:        average(all, area),
		ProxiedConcurrency: average(proxied, areaP),
		Arrivals:           float64(arrivals) / Window.Seconds(),
		ProxiedArrivals:    float64(arrivalsP) / Window.Seconds(),
	}
}

// average returns the average number of requests in flight in a window. before is their
// number at its beginning. A concurrent event must not make the result negative.
func average(before, area int64) float64 {
	return max(float64(before*int64(Window)+area)/float64(Window), 0)
}

func (t *tally) net() int64 {
	_, _, net := t.read()
	return net
}

// InFlight returns the number of requests that have begun and not ended.
func (c *Counting) InFlight() (all, proxied int64) {
	c.roll.Lock()
	defer c.roll.Unlock()
	// Read from the newest window to the oldest, so that no End is counted without its
	// Begin.
	newest := c.newest.Load()
	for k := newest; k > newest-keptWindows && k >= 0; k-- {
		all += c.slots[k%keptWindows].all.net()
		proxied += c.slots[k%keptWindows].proxied.net()
	}
	return all + c.carried, proxied + c.carriedP
}
