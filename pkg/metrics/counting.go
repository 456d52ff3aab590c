package metrics

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Window is the period over which averages and rates are computed.
const Window = time.Second

// keptWindows is the number of windows that accept events: the current window, the last
// full window, and two older ones. The older ones are for a goroutine that is delayed
// between reading the clock and counting.
const keptWindows = 4

// Counting computes the exact time integral of the number of requests in flight. It
// does so for all requests, and for the requests that the activator has proxied.
//
// A request that begins at time a adds windowEnd-a to the area of its window. It also
// adds one to the number of requests in every later window. The end of the request
// subtracts the same. Additions commute, so goroutines may count events in any order.
// An event that is counted more than two windows late is counted at the beginning of
// the oldest kept window. Its area is then inexact, but the number of requests stays
// exact.
//
// The zero value is ready. All methods are safe for concurrent use. All times are on
// one monotonic clock that began at 0.
type Counting struct {
	newest atomic.Int64 // number of the newest kept window
	_      [56]byte     // padding: each event reads newest and writes a countSlot, so they must not share a cache line

	slots [keptWindows]countSlot // window n is in slots[n % keptWindows]

	roll     sync.Mutex // guards the fields below, and changes of newest
	carried  int64      // number of requests in flight when the oldest kept window began
	carriedP int64      // number of proxied ones among the carried requests
}

// countSlot has the counts of one window. It fills a cache line, so that an event
// touches only one line.
type countSlot struct {
	all, proxied tally
	_            [32]byte
}

// tally adds up the events of one window.
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

// retire resets t for its next window. It returns the arrivals minus the ends that t
// has counted.
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

// slot returns the window that contains at, and the time in ns from at to the end of
// that window.
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

// advance makes n the newest window if n is later than the current newest window. It
// returns the newest window. The caller holds roll.
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

// LastWindow returns the values of the last window that was complete at now. They are
// zero if there is no such window.
func (c *Counting) LastWindow(now time.Duration) Averages {
	n := int64(now/Window) - 1
	if n < 0 {
		return Averages{}
	}
	c.roll.Lock()
	defer c.roll.Unlock()
	oldest := max(c.advance(n+1)-keptWindows+1, 0)
	n = max(n, oldest) // the reader may be delayed, too
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
// number at the beginning of the window. The result is never negative, even if an event
// is being counted at the same time.
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
