package metrics

import "time"

// Totals are sums over all requests that have ended since the start, without labels.
type Totals struct {
	// Durations counts durations by cell of DurationBounds, with one more cell for
	// larger values. Tunnels and requests that did not reach the container are
	// excluded. A cell may lag behind by the requests that end while it is read.
	Durations     []uint64
	Outcomes      []uint64 // by gate.Outcome
	RequestBytes  int64    // of bodies
	ResponseBytes int64
}

// tunnelCode is the status of requests that became a tunnel.
const tunnelCode = 101

// DurationBounds returns the inclusive upper bounds of the cells by which durations are
// counted. Every power of two of a second from 2^-20 to 2^17 is a bound, and from 1 µs
// on no cell is wider than a fifth of its bound.
func DurationBounds() []time.Duration {
	bounds := make([]time.Duration, len(durations.bounds))
	for i, b := range durations.bounds {
		bounds[i] = time.Duration(b)
	}
	return bounds
}

// ReadTotals fills t and reuses its slices if they are long enough.
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
	// Counted before series and read after them, so that no request is subtracted
	// without having been added.
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
