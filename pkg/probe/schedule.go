package probe

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// evidence is the result of a check as the schedule sees it. The values are in the order
// in which a starting container normally reaches them.
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

	// changes records which changes of the evidence have already set origin. The index is
	// the evidence before the change, and the number of the bit is the evidence after it.
	// Each change sets origin only once, so that a container whose results alternate is
	// not checked frequently forever.
	changes    [succeeding + 1]uint8
	readySince time.Duration // time of the latest change to success
}

// provenAfter is how long checks must have succeeded before a failure resets the
// history.
const provenAfter = time.Second

// withCheck returns the history after a check that gave the evidence e and ended at now.
// If the evidence changes in a way that is new in this history, origin becomes now, so
// that checks become frequent again. A failure resets the whole history if checks had
// succeeded for provenAfter.
func (h history) withCheck(e evidence, now time.Duration) history {
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
	// The next three limits apply while a container refuses connections and no prober
	// waits. The delay between checks is a share of the time since origin, within a
	// minimum and a maximum. A check costs 16 µs of CPU, plus 35 to 200 µs to wake an
	// idle process.
	refusedShare = 0.05
	refusedMin   = time.Millisecond
	refusedMax   = 250 * time.Millisecond
	// The next three limits apply while a container accepts connections but is not ready.
	reachedShare = 0.05
	reachedMin   = 10 * time.Millisecond
	reachedMax   = 250 * time.Millisecond
	// The next two limits apply to a ready container. The delay is readyMin after the
	// first success. Each further success makes it four times as long, until it is
	// readyMax. Probers may cause additional checks.
	readyMin = time.Second
	readyMax = 30 * time.Second
	// While a container with a period starts, startingPeriod is the minimum time between
	// two checks that reach the application. If the period is shorter, the minimum is the
	// period.
	startingPeriod = 200 * time.Millisecond
)

// delay returns the time until the next check in the adaptive schedule. The parameter
// last is the start of the last check. The parameter waiting is true if a prober waits.
// The parameter jitter, from -1 to 1, changes the delay by up to 10 %.
//
// After a refused connection, the delay counts from the start of the last check. After
// any other result, it counts from the end of that check.
//
// The schedule bounds the time until a check notices a change:
//
//   - A container starts to listen at the time T. If a prober waits, a check notices this
//     within 11 ms. Otherwise the bound is 5.5 % of T, but not less than 1.1 ms and not
//     more than 275 ms.
//   - A container becomes ready at the time S after it started to listen. The bound is
//     5.5 % of S, but not less than 11 ms and not more than 275 ms. The duration of the
//     checks is added to this bound.
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

func fraction(elapsed time.Duration, share float64, shortest, longest time.Duration) time.Duration {
	return min(max(time.Duration(float64(elapsed)*share), shortest), longest)
}
