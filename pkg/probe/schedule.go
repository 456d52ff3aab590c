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
	accepting                  // no response, but the check may have cost the application something
	responding                 // a response, but not a success
	succeeding                 // success
)

// evidenceOf classifies a result for the schedule.
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

// history is the information about previous checks that the schedule uses. The zero
// value is a container that was just started. All times are durations since then.
type history struct {
	last      evidence
	origin    time.Duration // the pace depends on the time since origin
	successes int           // consecutive

	changes    [succeeding + 1]uint8 // bit e of changes[l]: a change from l to e has moved origin
	readySince time.Duration         // with last == succeeding
}

// provenAfter is how long a container must have been succeeding for a failure to count
// as a restart. A container that changes faster keeps its previous, slower pace.
const provenAfter = time.Second

// after returns the history after a check that ended at now with e. A change of
// evidence moves origin, once for each kind of change.
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
	// No prober or request waits. An attempt costs 16 µs of CPU, and 35 to 200 µs for
	// waking an idle process, depending on the length of the pause.
	refusedShare = 0.05
	refusedMin   = time.Millisecond
	refusedMax   = 250 * time.Millisecond
	// The application pays for the check, regardless of waiting probers.
	reachedShare = 0.05
	reachedMin   = 10 * time.Millisecond
	reachedMax   = 250 * time.Millisecond
	// Once ready: four times as long after each success. Probers cause additional
	// checks; a check without a prober costs an idle process 0.24 ms.
	readyMin = time.Second
	readyMax = 30 * time.Second
	// With a period, during start-up.
	startingPeriod = 200 * time.Millisecond
)

// delay returns the time until the next check in the adaptive schedule. last is the
// start of the last check. waiting means that a prober waits, which causes about 520
// checks in the first second and 100 in each further second. jitter is that of
// gate.AddJitter.
//
// After a refused connection the delay counts from the start of the check, otherwise
// from its end, so that an application that responds slowly gets pauses.
//
// Guarantee: a container that starts to listen at T is noticed within 11 ms if a prober
// waits, otherwise within max(1.1 ms, 5.5 % of T), at most 275 ms. If it becomes ready
// S after it started to listen, that is noticed within max(11 ms, 5.5 % of S) plus the
// duration of the checks.
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
