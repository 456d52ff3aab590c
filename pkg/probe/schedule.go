package probe

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// evidence is what the last check showed about the container, in the order of a
// start-up.
type evidence uint8

const (
	noEvidence evidence = iota // no check has ended
	refusing                   // connection refused
	accepting                  // connection accepted, but no response
	responding                 // a response, but not a success
	succeeding                 // success
)

func evidenceOf(r check.Result) evidence {
	switch r.Cause.Kind {
	case check.CauseNone:
		return succeeding
	case check.CauseRefused:
		return refusing
	case check.CauseStatus, check.CauseNotServing, check.CauseUnimplemented, check.CauseRedirects:
		return responding
	}
	return accepting
}

// history summarizes earlier checks for the schedule. The zero value is a container
// that was just started. All times count from the start of the container.
type history struct {
	last      evidence
	origin    time.Duration // the delay grows with the time since origin
	successes int           // number of consecutive successes

	changes    [succeeding + 1]uint8 // bit e of changes[l] is set once a change from evidence l to e has set origin
	readySince time.Duration         // time since which last has been succeeding
}

// provenAfter is how long checks must have succeeded before a failure resets the
// history.
const provenAfter = time.Second

// after returns the history after a check with evidence e that ended at now. The first
// change of each kind sets origin to now, so that checks become frequent again.
func (h history) after(e evidence, now time.Duration) history {
	if e == h.last {
		if e == succeeding {
			h.successes++
		}
		return h
	}
	switch {
	case h.last == succeeding && now-h.readySince >= provenAfter:
		h = history{last: succeeding, origin: now}
	case h.last != noEvidence && h.changes[h.last]&(1<<e) == 0:
		h.changes[h.last] |= 1 << e
		h.origin = now
	}
	h.last, h.successes = e, 0
	if e == succeeding {
		h.readySince, h.successes = now, 1
	}
	return h
}

const (
	// For a container that refuses connections, while no prober waits. An attempt costs
	// 16 µs of CPU, plus 35 to 200 µs to wake an idle process.
	refusedShare = 0.05
	refusedMin   = time.Millisecond
	refusedMax   = 250 * time.Millisecond
	// For a container that accepts connections but is not ready.
	reachedShare = 0.05
	reachedMin   = 10 * time.Millisecond
	reachedMax   = 250 * time.Millisecond
	// For a ready container. Each success makes the delay four times as long. Probers
	// cause additional checks.
	readyMin = time.Second
	readyMax = 30 * time.Second
	// For a starting container with a period: the minimum time between checks that
	// reach the application, unless the period is shorter.
	startingPeriod = 200 * time.Millisecond
)

// delay returns the time until the next check in the adaptive schedule. last is the
// start of the last check. waiting means that a prober waits. jitter is an argument of
// gate.AddJitter.
//
// After a refused connection the delay counts from the start of the check, otherwise
// from its end.
//
// A container that starts to listen at time T is noticed within 11 ms if a prober
// waits, otherwise within 5.5 % of T (at least 1.1 ms, at most 275 ms). A container
// that becomes ready S after it started to listen is noticed within 5.5 % of S (at
// least 11 ms) plus the duration of the checks.
func (h history) delay(last time.Duration, waiting bool, jitter float64) time.Duration {
	elapsed := max(last-h.origin, 0)
	var d time.Duration
	switch {
	case h.last == noEvidence:
		return 0
	case h.last == refusing && waiting:
		return gate.QuickDelay(elapsed, jitter)
	case h.last == refusing:
		d = fraction(elapsed, refusedShare, refusedMin, refusedMax)
	case h.last == succeeding:
		d = readyMax
		if n := h.successes - 1; n < 3 {
			d = readyMin << (2 * max(n, 0))
		}
		return min(gate.AddJitter(d, jitter), readyMax)
	default:
		d = fraction(elapsed, reachedShare, reachedMin, reachedMax)
	}
	return gate.AddJitter(d, jitter)
}

func fraction(elapsed time.Duration, of float64, shortest, longest time.Duration) time.Duration {
	return min(max(time.Duration(float64(elapsed)*of), shortest), longest)
}
