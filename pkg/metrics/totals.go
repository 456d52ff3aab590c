package metrics

import "time"

// Totals are the sums over all requests that have ended since the start, read
// once and without labels.
type Totals struct {
	// Durations counts total times by cell of DurationBounds. Left out is what has
	// no latency: tunnels, and what was refused, or went wrong on the client's
	// side, before any of it went to the container. It has one cell more than
	// there are bounds. A cell can be behind by the requests that end while it is
	// read, never ahead.
	Durations     []uint64
	Outcomes      []uint64 // by index into the names that NewRequests was given
	RequestBytes  int64    // of bodies
	ResponseBytes int64
}

// tunnelCode is the status of requests that became a tunnel.
const tunnelCode = 101

// DurationBounds returns the inclusive upper bounds of the cells that durations
// are counted by: every power of two of a second from 2^-20 to 2^17 is one, and
// no cell is wider than a fifth of its bound from 1 µs on.
func DurationBounds() []time.Duration {
	bounds := make([]time.Duration, len(durations.bounds))
	for i, b := range durations.bounds {
		bounds[i] = time.Duration(b)
	}
	return bounds
}

// ReadTotals fills t, whose slices are used again if they are long enough.
func (r *Requests) ReadTotals(t *Totals) {
	t.Durations = zeroed(t.Durations, len(durations.bounds)+1)
	for tag := range r.total {
		codes := r.total[tag].Load()
		if codes == nil {
			continue
		}
		for i := range codes {
			h := codes[i].Load()
			if h == nil || firstCode+i == tunnelCode {
				continue
			}
			for cell := range h.cells {
				t.Durations[cell] += h.cells[cell].Load()
			}
		}
	}
	// Counted before total and read after it, so that none is in total alone.
	for cell := range t.Durations {
		t.Durations[cell] -= min(r.turnedAway.cells[cell].Load(), t.Durations[cell])
	}
	t.Outcomes = zeroed(t.Outcomes, len(r.outcomes))
	for i := range r.outcomes {
		t.Outcomes[i] = r.outcomes[i].Load()
	}
	t.RequestBytes, t.ResponseBytes = r.requestBody.sum.Load(), r.responseBody.sum.Load()
}

// OutcomeNames are those that NewRequests was given. They are not to be changed.
func (r *Requests) OutcomeNames() []string { return r.outcomeNames }

func zeroed(s []uint64, n int) []uint64 {
	if cap(s) < n {
		return make([]uint64, n)
	}
	s = s[:n]
	clear(s)
	return s
}
