package gate

import (
	"slices"
	"testing"
)

func TestEveryOutcomeHasItsClass(t *testing.T) {
	want := map[Class][]Outcome{
		ClassSucceeded: {Served, Tunnelled, Probed},
		ClassRefused:   {QueueFull, QueueWaitExpired, DeadlineExceeded, ShuttingDown, NotReady, OutOfMemoryBudget},
		ClassFailed: {RequestTimeout, ResponseStartTimeout, IdleTimeout, UpstreamNotListening, UpstreamClosed, UpstreamReset,
			UpstreamMalformed, UpstreamBrokeOff, InternalError, UpstreamTLSFailed},
		ClassClientError: {BadRequest, TargetTooLong, HeadTooLarge, ExpectationFailed, MethodNotAllowed, CodingNotImplemented,
			VersionNotSupported, HeadTimeout, ClientGone, ProbeRejected, PlaintextRefused},
	}
	for _, o := range Outcomes() {
		if !slices.Contains(want[o.Class()], o) {
			t.Errorf("%v is of class %q", o, o.Class())
		}
	}
}

func TestAResponseOfTheContainerHasFailedFrom500On(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		status  int
		want    Class
	}{
		{Served, 200, ClassSucceeded}, {Served, 404, ClassSucceeded}, {Served, 500, ClassFailed}, {Served, 503, ClassFailed}, {Tunnelled, 101, ClassSucceeded},
		{QueueFull, 503, ClassRefused}, {CodingNotImplemented, 501, ClassClientError}, {ClientGone, 499, ClassClientError},
	} {
		if got := ClassOf(c.outcome, c.status); got != c.want {
			t.Errorf("%v with %d: %v, want %v", c.outcome, c.status, got, c.want)
		}
	}
}
