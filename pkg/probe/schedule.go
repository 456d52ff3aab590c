package probe

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// evidence is what the last check showed about the container. The values are in the
// order in which a start-up goes through them.
type evidence uint8

const (
	noEvidence evidence = iota // no check has ended
	refusing                   // connection refused
	accepting                  // no response, but the check may have cost the application work
	responding                 // a response, but not a success
	succeeding                 // success
)

// evidenceOf returns the evidence of a check result.
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

// history is what the schedule knows about earlier checks. The zero value is a
// container that was just started. All times count from the start of the container.
type history struct {
	last      evidence
	origin    time.Duration // the delay grows with the time since origin
	successes int           // number of consecutive successes

	changes    [succeeding + 1]uint8 // bit e of changes[l] is set if a change from l to e has already moved origin
	readySince time.Duration         // time since which last has been succeeding
}

// provenAfter is how long checks must have succeeded before a failure counts as a
// restart, which resets the history. If a container fails sooner, the delays do not
// start over.
const provenAfter = time.Second

// after returns the history after a check with evidence e that ended at now. A change
// of evidence sets origin to now, so that checks become frequent again. Each kind of
// change does so only once.
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
	// 16 µs of CPU. Waking an idle process costs 35 to 200 µs more, depending on the
	// length of the pause.
	refusedShare = 0.05
	refusedMin   = time.Millisecond
	refusedMax   = 250 * time.Millisecond
	// For a container that accepts connections but is not ready, with or without
	// waiting probers: each check costs the application work.
	reachedShare = 0.05
	reachedMin   = 10 * time.Millisecond
	reachedMax   = 250 * time.Millisecond
	// For a ready container. The delay is four times as long after each success.
	// Probers cause additional checks. A check without a prober costs an idle process
	// 0.24 ms of CPU.
	readyMin = time.Second
	readyMax = 30 * time.Second
	// For a starting container with a period. Checks that reach the application begin
	// at least this long apart, or one period if that is shorter.
	startingPeriod = 200 * time.Millisecond
)

// delay returns the time until the next check in the adaptive schedule. last is the
// start of the last check. waiting means that a prober waits; then there are about 520
// checks in the first second and 100 in each further second. jitter is an argument of
// gate.AddJitter.
//
// After a refused connection the delay counts from the start of the check. Otherwise it
// counts from the end of the check, so that an application that responds slowly gets
// pauses.
//
// Guarantees: If a container starts to listen at time T and a prober waits, that is
// noticed within 11 ms. Without a waiting prober, it is noticed within max(1.1 ms,
// 5.5 % of T), at most 275 ms. If the container becomes ready S after it started to
// listen, that is noticed within max(11 ms, 5.5 % of S) plus the duration of the
// checks.
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
