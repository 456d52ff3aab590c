package metrics

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Window is the span that averages and rates are taken over.
const Window = time.Second

// keptWindows is how many windows accept events: the current one, the last
// full one, and those behind it for a goroutine that is delayed between reading
// the clock and counting.
const keptWindows = 4

// Counting is the number of requests under way as an exact time integral, for
// all requests and for those that the activator proxied.
//
// A request that begins at a adds windowEnd-a to the area of its window and
// one to every later window; one that ends takes the same away. Additions
// commute, so events may come from any goroutine and in any order. An event
// that is counted more than two windows late is taken as having happened at
// the beginning of the oldest kept window: area is lost then, never a count.
//
// The zero value is ready. All methods are safe for concurrent use; times are
// on one monotonic clock that began at 0.
type Counting struct {
	newest atomic.Int64 // number of the newest kept window
	_      [56]byte     // read by every event, written once a second: not on the line of a slot

	slots [keptWindows]countSlot // window n is in slots[n % keptWindows]

	roll     sync.Mutex // guards the rest, and moving newest
	carried  int64      // under way when the oldest kept window began
	carriedP int64      // those of them that were proxied
}

// countSlot fills a cache line: a request that is proxied touches no other.
type countSlot struct {
	all, proxied tally
	_            [32]byte
}

// tally is what the events of one window add up to.
type tally struct {
	area   atomic.Int64  // ns; of the window's own events
	counts atomic.Uint64 // arrivals, low 32 bits; ends, high 32 bits: enough for 4e9 a second
}

const endUnit = 1 << 32

func (t *tally) read() (area, arrivals, net int64) {
	counts := t.counts.Load()
	arrivals = int64(uint32(counts))
	return t.area.Load(), arrivals, arrivals - int64(counts>>32)
}

// retire empties t for another window and returns its net count.
func (t *tally) retire() int64 {
	counts := t.counts.Swap(0)
	t.area.Store(0)
	return int64(uint32(counts)) - int64(counts>>32)
}

// Begin counts a request that arrived at the instant at.
func (c *Counting) Begin(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(rest)
	s.all.counts.Add(1)
	if proxied {
		s.proxied.area.Add(rest)
		s.proxied.counts.Add(1)
	}
}

// End counts the end of a request. It is called once for each Begin, with the
// same proxied.
func (c *Counting) End(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(-rest)
	s.all.counts.Add(endUnit)
	if proxied {
		s.proxied.area.Add(-rest)
		s.proxied.counts.Add(endUnit)
	}
}

// slot finds the window of an instant and how much of it is left then.
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

// advance makes n the newest window unless it is older, and returns the
// newest. The caller holds roll.
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
	// Published last: a goroutine that sees n finds empty slots.
	c.newest.Store(n)
	return n
}

// Averages are the values of one window.
type Averages struct {
	Concurrency        float64 // average number of requests under way
	ProxiedConcurrency float64
	Arrivals           float64 // per second
	ProxiedArrivals    float64
}

// LastWindow returns the values of the last window that was over at now. They
// are zero while none is.
func (c *Counting) LastWindow(now time.Duration) Averages {
	n := int64(now/Window) - 1
	if n < 0 {
		return Averages{}
	}
	c.roll.Lock()
	defer c.roll.Unlock()
	oldest := max(c.advance(n+1)-keptWindows+1, 0)
	n = max(n, oldest) // a reader may be delayed as well
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

// average is that of a window which began with so many under way. An event
// that is half counted at this moment must not show as less than nothing.
func average(before, area int64) float64 {
	return max(float64(before*int64(Window)+area)/float64(Window), 0)
}

func (t *tally) net() int64 {
	_, _, net := t.read()
	return net
}

// InFlight is the number of requests between Begin and End.
func (c *Counting) InFlight() (all, proxied int64) {
	c.roll.Lock()
	defer c.roll.Unlock()
	// Backwards in time, so that no End is seen without its Begin.
	newest := c.newest.Load()
	for k := newest; k > newest-keptWindows && k >= 0; k-- {
		all += c.slots[k%keptWindows].all.net()
		proxied += c.slots[k%keptWindows].proxied.net()
	}
	return all + c.carried, proxied + c.carriedP
}
