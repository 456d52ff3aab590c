package statuspage

import (
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics"
)

// Rows of the heat map, one per octave: the first is up to 2^firstOctave seconds (61
// µs), the last above 2^lastOctave (64 s).
const (
	firstOctave = -14
	lastOctave  = 6
	heatRows    = lastOctave - firstOctave + 2
)

// recentSeconds is the period of failures that determine the state.
const recentSeconds = 10

// windows are the periods, in seconds, of the quantiles that are shown as numbers.
var windows = [...]int{recentSeconds, 60, keptSeconds}

type second struct {
	open, arrivals              float32 // open: average of requests in flight and queued
	concurrency                 float32 // average of requests in flight
	inFlight, queue             uint32  // at its end
	refused, failed             uint32
	clientErrors                uint32
	requestBytes, responseBytes float32
	p50, p99                    float32 // in ms, of metrics.Totals.Durations; 0 = none
	heat                        [heatRows]uint32
}

// ring holds the last keptSeconds seconds, numbered on the gate's clock.
type ring struct {
	seconds [keptSeconds]second
	newest  int64

	// Values at the last credit.
	openRequests    float32
	inFlight, queue uint32
	totals, before  metrics.Totals
	troubles        failureCounts

	bounds []time.Duration                            // of the cells of durations
	rows   []uint8                                    // row of each cell
	recent [recentSeconds]durationCells               // by second
	blocks [keptSeconds / recentSeconds]durationCells // by recentSeconds seconds
}

// durationCells are the durations of one period at full resolution.
type durationCells struct {
	number int64 // number of the period
	cells  []uint32
}

// of returns the cells for a period, and clears the data of an earlier period.
func (c *durationCells) of(number int64) []uint32 {
	if c.number != number {
		c.number = number
		clear(c.cells)
	}
	return c.cells
}

// newRing returns an empty ring. The first added second is number over; earlier
// seconds had no events.
func newRing(over int64) *ring {
	r := &ring{newest: max(over, 0) - 1, bounds: metrics.DurationBounds()}
	r.rows = make([]uint8, len(r.bounds)+1)
	for cell := range r.rows {
		row := 0
		for row < heatRows-1 && (cell == len(r.bounds) || r.bounds[cell] > rowBound(row)) {
			row++
		}
		r.rows[cell] = uint8(row)
	}
	for i := range r.recent {
		r.recent[i] = durationCells{number: -1, cells: make([]uint32, len(r.rows))}
	}
	for i := range r.blocks {
		r.blocks[i] = durationCells{number: -1, cells: make([]uint32, len(r.rows))}
	}
	return r
}

// rowBound returns the inclusive upper bound of a row except the last.
func rowBound(row int) time.Duration {
	return time.Duration(math.Exp2(float64(firstOctave+row)) * float64(time.Second))
}

func (r *ring) at(n int64) *second { return &r.seconds[n%keptSeconds] }

// next makes n the newest second.
func (r *ring) next(n int64) *second {
	r.newest = n
	s := r.at(n)
	*s = second{}
	return s
}

// first returns the number of the oldest kept second.
func (r *ring) first() int64 { return max(r.newest-keptSeconds+1, 0) }

// credit stores the current state in the newest second, and adds the events since the
// last credit to it.
func (r *ring) credit(src *Sources) {
	all, _ := src.Counting.InFlight()
	r.openRequests = float32(all)
	queueBefore, limit := r.queue, 0
	if r.newest > r.first() {
		queueBefore = r.at(r.newest - 1).queue
	}
	if src.Admission != nil {
		a := src.Admission()
		r.inFlight, r.queue = uint32(max(a.InFlight, 0)), uint32(max(a.QueueDepth, 0))
		limit = a.ConcurrencyLimit
	}
	r.totals, r.before = r.before, r.totals
	src.Requests.ReadTotals(&r.totals)
	s := r.at(r.newest)
	s.inFlight, s.queue = r.inFlight, r.queue
	s.concurrency = inFlightAverage(s.open, queueBefore, r.queue, limit)
	s.requestBytes += float32(r.totals.RequestBytes - r.before.RequestBytes)
	s.responseBytes += float32(r.totals.ResponseBytes - r.before.ResponseBytes)
	total := src.Errors.totals()
	t := total.minus(r.troubles)
	r.troubles = total
	s.refused += uint32(t.refused)
	s.failed += uint32(t.failed)
	s.clientErrors += uint32(t.clientErrors)
	cells := r.recent[r.newest%recentSeconds].of(r.newest)
	number := r.newest / recentSeconds
	block := r.blocks[number%int64(len(r.blocks))].of(number)
	for cell, total := range r.totals.Durations {
		if cell < len(r.before.Durations) { // empty before the first credit
			// Concurrent requests can make a total decrease; a later second corrects
			// it.
			total = max(total, r.before.Durations[cell])
			r.totals.Durations[cell] = total
			total -= r.before.Durations[cell]
		}
		cells[cell] += uint32(total)
		block[cell] += uint32(total)
		s.heat[r.rows[cell]] += uint32(total)
	}
	s.p50, s.p99 = float32(r.quantile(cells, 0.5)), float32(r.quantile(cells, 0.99))
}

// inFlightAverage estimates the average of requests in flight during a second from
// the average of open requests, the queue length at its beginning and end, and the
// limit (0 = unlimited). It is exact while the queue stays empty, and while all slots
// are taken.
func inFlightAverage(open float32, queueBefore, queueAfter uint32, limit int) float32 {
	average := max(open-(float32(queueBefore)+float32(queueAfter))/2, 0)
	if limit > 0 {
		average = min(average, float32(limit))
	}
	return average
}

// quantile returns a quantile in ms, at least 1 µs; 0 = no durations. It assumes that
// durations are spread evenly within a cell.
func (r *ring) quantile(cells []uint32, q float64) float64 {
	count := uint64(0)
	for _, n := range cells {
		count += uint64(n)
	}
	rank := q * float64(count)
	below := 0.0
	for i, n := range cells {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		low, high := time.Duration(0), r.bounds[min(i, len(r.bounds)-1)]
		if i > 0 {
			low = r.bounds[i-1]
		}
		d := float64(low) + float64(high-low)*(rank-below)/float64(n)
		return max(d, float64(time.Microsecond)) / float64(time.Millisecond)
	}
	return 0
}

// recentFailures returns the failures of the last recentSeconds full seconds and of the
// current second. total is the current total.
func (r *ring) recentFailures(total failureCounts) failureCounts {
	t := total.minus(r.troubles)
	for i := max(r.newest-recentSeconds+1, r.first()); i <= r.newest; i++ {
		s := r.at(i)
		t.refused += uint64(s.refused)
		t.failed += uint64(s.failed)
		t.clientErrors += uint64(s.clientErrors)
	}
	return t
}

// window returns the quantiles of the last seconds. A window longer than
// recentSeconds consists of whole blocks, so it may be up to recentSeconds-1 shorter.
func (r *ring) window(seconds int) windowJSON {
	from, newest := r.recent[:], r.newest
	if seconds > recentSeconds {
		from, newest = r.blocks[:], r.newest/recentSeconds
		seconds /= recentSeconds
	}
	w := windowJSON{}
	sum := make([]uint32, len(r.rows))
	for i := range from {
		if c := &from[i]; c.number > newest-int64(seconds) && c.number >= 0 {
			for cell, n := range c.cells {
				sum[cell] += n
				w.Ended += uint64(n)
			}
		}
	}
	w.P50, w.P99 = round(r.quantile(sum, 0.5)), round(r.quantile(sum, 0.99))
	return w
}
