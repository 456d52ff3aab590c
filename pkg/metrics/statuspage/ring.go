package statuspage

import (
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics"
)

// The heat map has one row per octave of request duration. The first row has durations
// of at most 2^firstOctave seconds (61 µs). The upper bound of each further row is
// twice that of the row before. The last row has all durations above 2^lastOctave
// seconds (64 s).
const (
	firstOctave = -14
	lastOctave  = 6
	heatRows    = lastOctave - firstOctave + 2
)

// recentSeconds is the number of seconds for which a failure influences the State.
const recentSeconds = 10

// windows are the periods, in seconds, for which the page shows the latency quantiles p50
// and p99 as numbers.
var windows = [...]int{recentSeconds, 60, historySeconds}

type second struct {
	open, arrivals              float32 // open: average of requests in flight and queued
	concurrency                 float32 // average of requests in flight
	inFlight, queue             uint32  // at the end of the second
	refused, failed             uint32
	clientErrors                uint32
	requestBytes, responseBytes float32
	p50, p99                    float32 // quantiles of the durations in ms; 0 = none
	heat                        [heatRows]uint32
}

// ring holds the last historySeconds seconds, numbered on the gate's clock.
type ring struct {
	seconds [historySeconds]second
	newest  int64

	// Values at the last credit.
	openRequests    float32
	inFlight, queue uint32
	totals, before  metrics.Totals
	troubles        failureCounts

	bounds []time.Duration                               // upper bounds of the cells
	rows   []uint8                                       // row of each cell
	recent [recentSeconds]durationCells                  // by second
	blocks [historySeconds / recentSeconds]durationCells // by recentSeconds seconds
}

// durationCells are the durations of one period at full resolution.
type durationCells struct {
	number int64 // number of the period
	cells  []uint32
}

// forPeriod returns the cells for the period with the given number. If c still has the
// cells of an earlier period, it sets them to 0 first.
func (c *durationCells) forPeriod(number int64) []uint32 {
	if c.number != number {
		c.number = number
		clear(c.cells)
	}
	return c.cells
}

// newRing returns an empty ring. lastEnded is the number of the last second that has
// ended, or -1 if no second has ended. History.fill adds the second lastEnded first, or
// the second 0 if lastEnded is -1. All earlier seconds have the value 0, because they had
// no events.
func newRing(lastEnded int64) *ring {
	r := &ring{newest: max(lastEnded, 0) - 1, bounds: metrics.DurationBounds()}
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

func (r *ring) at(n int64) *second { return &r.seconds[n%historySeconds] }

// next makes n the newest second.
func (r *ring) next(n int64) *second {
	r.newest = n
	s := r.at(n)
	*s = second{}
	return s
}

// first returns the number of the oldest kept second.
func (r *ring) first() int64 { return max(r.newest-historySeconds+1, 0) }

// credit completes the data of the newest second. It sets the queue length and the number
// of requests in flight to their current values. It adds all events since the last call
// of credit.
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
	cells := r.recent[r.newest%recentSeconds].forPeriod(r.newest)
	number := r.newest / recentSeconds
	block := r.blocks[number%int64(len(r.blocks))].forPeriod(number)
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

// inFlightAverage estimates the average number of requests in flight during a second. The
// parameter open is the average number of requests in flight or queued. queueBefore and
// queueAfter are the queue lengths at the beginning and end of the second. The result is
// at most limit; 0 = no limit. The estimate assumes that the queue length changes evenly
// during the second. It is exact if the queue length does not change.
func inFlightAverage(open float32, queueBefore, queueAfter uint32, limit int) float32 {
	average := max(open-(float32(queueBefore)+float32(queueAfter))/2, 0)
	if limit > 0 {
		average = min(average, float32(limit))
	}
	return average
}

// quantile returns the q-quantile, in ms, of the durations that are counted in cells. It
// assumes that the durations within a cell are spread evenly. The result is 0 if there
// are no durations. Otherwise it is at least 1 µs, so that rounding does not make it 0.
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

// recentFailures returns the number of failures in the last recentSeconds full seconds
// and in the current second. The parameter total is the number of failures since the
// start of the gate.
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

// window returns the latency quantiles of a period that ends now. The parameter seconds
// is the length of the period. A period longer than recentSeconds consists of whole
// blocks of recentSeconds seconds. The newest block may have just begun, so the real
// period may be up to recentSeconds-1 seconds shorter.
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
