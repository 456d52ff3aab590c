package metrics

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Window is the period over which averages and rates are computed.
const Window = time.Second

// numWindows is the number of windows that accept events: the current window and the
// three before. A goroutine may be delayed between reading the clock and counting.
const numWindows = 4

// Counting computes the exact time integral of the number of requests in flight, for
// all requests and for the requests proxied by the activator.
//
// The beginning of a request adds the remaining time of its window to the area of this
// window, and adds 1 to the number of requests in every later window. The end of a
// request subtracts the remaining time of its window, and subtracts 1. Goroutines may
// count these events in any order.
//
// An event may be older than all kept windows. It is then counted at the beginning of the
// oldest kept window, so the area of that window is inexact.
//
// The zero value is ready. All methods are safe for concurrent use. All times are on
// one monotonic clock that began at 0.
type Counting struct {
	newest atomic.Int64 // number of the newest kept window
	// Each event reads newest and writes a countSlot. The padding keeps them in different
	// cache lines, because a write slows down the readers of the same cache line.
	_ [56]byte

	slots [numWindows]countSlot // window n is in slots[n % numWindows]

	roll    sync.Mutex // guards the fields below, and changes of newest
	carried int64      // number of requests in flight when the oldest kept window began
	// carriedP is the number of proxied requests in flight when the oldest kept window
	// began.
	carriedP int64
}

// countSlot has the counts of one window. It fills one cache line.
type countSlot struct {
	all, proxied tally
	_            [32]byte
}

type tally struct {
	// area is a sum of times in ns. A request that begins in the window adds the time
	// from then to the end of the window. A request that ends in the window subtracts
	// the time from then to the end of the window.
	area atomic.Int64
	// counts has the number of arrivals in the low 32 bits, and the number of ended
	// requests in the high 32 bits. Each can be up to 4e9 in a window, which is one
	// second.
	counts atomic.Uint64
}

const endUnit = 1 << 32

func (t *tally) read() (area, arrivals, net int64) {
	counts := t.counts.Load()
	arrivals = int64(uint32(counts))
	return t.area.Load(), arrivals, arrivals - int64(counts>>32)
}

// retire resets t, so that t can count the next window. It returns the number of requests
// that arrived in the old window minus the number that ended in it.
func (t *tally) retire() int64 {
	counts := t.counts.Swap(0)
	t.area.Store(0)
	return int64(uint32(counts)) - int64(counts>>32)
}

// Begin counts a request. The parameter at is the time of its arrival.
func (c *Counting) Begin(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(rest)
	s.all.counts.Add(1)
	if proxied {
		s.proxied.area.Add(rest)
		s.proxied.counts.Add(1)
	}
}

// End counts the end of a request. The parameter at is the time of this end. Call End
// once for each Begin, with the same value of proxied.
func (c *Counting) End(at time.Duration, proxied bool) {
	s, rest := c.slot(at)
	s.all.area.Add(-rest)
	s.all.counts.Add(endUnit)
	if proxied {
		s.proxied.area.Add(-rest)
		s.proxied.counts.Add(endUnit)
	}
}

// slot returns the window in which an event at this time is counted. The result remaining is
// the number of nanoseconds from the event to the end of the window.
func (c *Counting) slot(at time.Duration) (s *countSlot, remaining int64) {
	at = max(at, 0)
	n := int64(at / Window)
	newest := c.newest.Load()
	if n > newest {
		newest = c.rollTo(n)
	}
	remaining = (n+1)*int64(Window) - int64(at)
	if oldest := newest - numWindows + 1; n < oldest {
		n, remaining = oldest, int64(Window)
	}
	return &c.slots[n%numWindows], remaining
}

func (c *Counting) rollTo(n int64) int64 {
	c.roll.Lock()
	defer c.roll.Unlock()
	return c.advance(n)
}

// advance makes n the newest window unless a newer window exists. It returns the number
// of the newest window. The caller must have locked c.roll.
func (c *Counting) advance(n int64) int64 {
	newest := c.newest.Load()
	if n <= newest {
		return newest
	}
	for k := int64(1); k <= min(n-newest, numWindows); k++ {
		s := &c.slots[(newest+k)%numWindows]
		c.carried += s.all.retire()
		c.carriedP += s.proxied.retire()
	}
	// Store n after all slots have been reset. Otherwise a goroutine that reads n could
	// count an event in a slot, and the reset would erase the event.
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

// LastWindow returns the values of the last window that is complete at the time now. It
// returns zeros if no window is complete.
func (c *Counting) LastWindow(now time.Duration) Averages {
	n := int64(now/Window) - 1
	if n < 0 {
		return Averages{}
	}
	c.roll.Lock()
	defer c.roll.Unlock()
	oldest := max(c.advance(n+1)-numWindows+1, 0)
	n = max(n, oldest) // if the clock was read long ago, window n is no longer kept
	all, proxied := c.carried, c.carriedP
	area, arrivals, _ := c.slots[n%numWindows].all.read()
	areaP, arrivalsP, _ := c.slots[n%numWindows].proxied.read()
	for k := n - 1; k >= oldest; k-- {
		all += c.slots[k%numWindows].all.net()
		proxied += c.slots[k%numWindows].proxied.net()
	}
	return Averages{
		Concurrency:        average(all, area),
		ProxiedConcurrency: average(proxied, areaP),
		Arrivals:           float64(arrivals) / Window.Seconds(),
		ProxiedArrivals:    float64(arrivalsP) / Window.Seconds(),
	}
}

// average returns the average number of requests in flight in a window. The parameter
// inFlight is the number of requests at the beginning of the window, and area is the
// tally.area of the window. These values may be inconsistent, because events are counted
// while they are read. If the average would be negative, the result is 0.
func average(inFlight, area int64) float64 {
	return max(float64(inFlight*int64(Window)+area)/float64(Window), 0)
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
	for k := newest; k > newest-numWindows && k >= 0; k-- {
		all += c.slots[k%numWindows].all.net()
		proxied += c.slots[k%numWindows].proxied.net()
	}
	return all + c.carried, proxied + c.carriedP
}
