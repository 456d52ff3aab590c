package probe

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

// evidence is what the last attempt showed of the container. The order is that
// of a start-up.
type evidence uint8

const (
	noEvidence evidence = iota // no attempt has ended
	refusing                   // the connection was refused
	accepting                  // an attempt may have cost the application something, but there was no response
	responding                 // it responded, but not with success
	succeeding                 // the probe succeeded
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

// history is what the schedule needs to know of the attempts so far. Its zero
// value is a container that was just started. All times are durations since
// then.
type history struct {
	last      evidence
	origin    time.Duration // the pace is a share of the time since origin
	successes int           // in a row

	changes    [succeeding + 1]uint8 // bit e of changes[l]: the change from l to e has moved origin
	readySince time.Duration         // of last == succeeding
}

// provenAfter is how long a container must have succeeded for a failure to
// count as a new start. One that flaps faster than that keeps its old, slower
// pace.
const provenAfter = time.Second

// after returns the history once an attempt that ended at now gave e. A change
// of evidence moves origin, once per kind of change.
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
	// No caller is held. An attempt costs 16 µs of CPU, and 35 to 200 µs for waking
	// an idle process, the more the longer the pause was.
	refusedShare = 0.05
	refusedMin   = time.Millisecond
	refusedMax   = 250 * time.Millisecond
	// The application pays for the attempt, held callers or not.
	reachedShare = 0.05
	reachedMin   = 10 * time.Millisecond
	reachedMax   = 250 * time.Millisecond
	// Once ready: four times as long after each success. Callers cause
	// checks of their own; a check without a caller costs an idle process 0.24 ms.
	readyMin = time.Second
	readyMax = 30 * time.Second
	// With a period, while starting.
	startingPeriod = 200 * time.Millisecond
)

// delay is the pace of the adaptive schedule: the time to let pass before the
// next attempt. last is when the last attempt began; waiting says that a caller
// is held, which makes some 520 attempts in the first second and 100 in each
// after the second; jitter is as gate.Stretch takes it.
//
// After a refused attempt the delay counts from its beginning, after any other
// from its end, so that an application that is slow to respond is not probed
// without a pause.
//
// Budget: what begins to accept at T is found after at most 11 ms if a caller
// is held, else after max(1.1 ms, 5.5 % of T), at most 275 ms. What became ready
// at S after it began to accept is found after at most max(11 ms, 5.5 % of S),
// plus the time of the attempts themselves.
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

func fraction(elapsed time.Duration, of float64, least, most time.Duration) time.Duration {
	return min(max(time.Duration(float64(elapsed)*of), least), most)
}
