package probe

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/pkg/probe/check"
)

// State is the state of a container:
//
//	from                 on                                          to
//	any                  refused, in a check or by Observed          Down
//	Unknown, Down        any other failure                           Failing
//	Unknown, Down        success, successThreshold not reached       Failing
//	Failing              failure, or successThreshold not reached    Failing
//	any but Ready        success, successThreshold reached           Ready
//	Ready                success                                     Ready
//	Ready, with period   failure, failureThreshold not reached       Ready
//	Ready                any other failure                           Failing
//	any                  Suspend                                     Asleep
//	Asleep               Resume                                      Unknown
type State uint8

const (
	Unknown State = iota // no check has ended
	Down                 // does not listen
	Failing              // listens, but the check fails
	Ready                // the check succeeds
	Asleep               // suspended: not checked, and reported as ready
)

func (s State) String() string {
	return [...]string{Unknown: "unknown", Down: "down", Failing: "failing", Ready: "ready", Asleep: "asleep"}[s]
}

// States returns all states except Asleep.
func States() []State { return []State{Unknown, Down, Failing, Ready} }

// nextState implements the table of State. successes and failures are the numbers of
// consecutive successful and failed checks, including the current one.
func nextState(from State, spec *Spec, cause check.Cause, successes, failures int) State {
	switch {
	case cause.Kind == check.CauseRefused:
		return Down
	case cause.Kind == check.CauseNone && (from == Ready || successes >= spec.SuccessThreshold):
		return Ready
	case cause.Kind != check.CauseNone && from == Ready && !spec.Adaptive() && failures < spec.FailureThreshold:
		return Ready
	}
	return Failing
}

// Change is a change of a container's state.
type Change struct {
	Container string
	Index     int
	From, To  State
	Cause     check.Cause   // reason for the state To; zero if To is Ready
	After     time.Duration // time spent in From
	Attempts  uint64        // number of checks while in From
	// Quiet asks not to log this change, because the state has changed more than 10
	// times within about 10 s.
	Quiet bool
}

// String returns the change as a sentence.
func (c Change) String() string {
	was, plural := "was "+c.From.String(), "s"
	if c.From == Unknown {
		was = "not known"
	}
	if c.Attempts == 1 {
		plural = ""
	}
	history := fmt.Sprintf("%s for %s, %d check%s", was, c.After.Round(time.Millisecond), c.Attempts, plural)
	if c.From == Unknown && c.Attempts == 1 {
		history = "first check"
	}
	if c.To == Asleep {
		return fmt.Sprintf("%s is asleep (%s for %s): it is not checked, and probes report ready", c.Container, was, c.After.Round(time.Millisecond))
	}
	s := fmt.Sprintf("%s is %s (%s)", c.Container, c.To, history)
	if c.Cause.Kind != check.CauseNone {
		s += ": " + c.Cause.String()
	}
	return s
}

// logLimiter is a token bucket of maxLogBurst tokens. It gets one token per second.
type logLimiter struct {
	tokens float64
	last   time.Time
}

const maxLogBurst = 10

func (t *logLimiter) allow(now time.Time) bool {
	if t.last.IsZero() {
		t.tokens = maxLogBurst
	} else {
		t.tokens = min(t.tokens+now.Sub(t.last).Seconds(), maxLogBurst)
	}
	t.last = now
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}
