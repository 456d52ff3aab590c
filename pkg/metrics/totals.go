package metrics

import "time"

// Totals are sums over all requests that have ended since the start.
type Totals struct {
	// Durations has the number of requests in each cell of DurationBounds, and in one
	// more cell for longer durations. It does not include tunnels, or requests that did
	// not reach the container.
	Durations     []uint64
	Outcomes      []uint64 // by gate.Outcome
	RequestBytes  int64    // bytes of request bodies
	ResponseBytes int64
}

// tunnelCode is the status of a request that became a tunnel.
const tunnelCode = 101

// DurationBounds returns the inclusive upper bounds of the cells of Durations. The bounds
// include every power of two from 2^-20 to 2^17 seconds. The width of a cell above 1 µs
// is at most a fifth of the upper bound of the cell.
func DurationBounds() []time.Duration {
	bounds := make([]time.Duration, len(durations.bounds))
	for i, b := range durations.bounds {
		bounds[i] = time.Duration(b)
	}
	return bounds
}

// ReadTotals sets t to the current totals. It reuses the slices of t if they are long
// enough.
func (r *Requests) ReadTotals(t *Totals) {
	*t = Totals{Durations: zeroed(t.Durations, len(durations.bounds)+1), Outcomes: zeroed(t.Outcomes, len(r.outcomes))}
	r.series.each(func(s *series) {
		t.RequestBytes += s.request.sum.Load()
		t.ResponseBytes += s.response.sum.Load()
		if s.key.code() == tunnelCode {
			return
		}
		for cell := range s.server.cells {
			t.Durations[cell] += s.server.cells[cell].Load()
		}
	})
	// Observe counts a request that did not reach the container first in unforwarded, and
	// then in its series. Read unforwarded after the series, so that it includes all such
	// requests of the series. It may also include newer requests; min prevents negative
	// differences.
	for cell := range t.Durations {
		t.Durations[cell] -= min(r.unforwarded.cells[cell].Load(), t.Durations[cell])
	}
	for i := range r.outcomes {
		t.Outcomes[i] = r.outcomes[i].Load()
	}
}

func zeroed(s []uint64, n int) []uint64 {
	if cap(s) < n {
		return make([]uint64, n)
	}
	s = s[:n]
	clear(s)
	return s
}
