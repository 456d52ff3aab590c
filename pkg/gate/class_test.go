package gate

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the classes of outcomes that queuectl embeds")

func TestQueuectlHasTheClassOfEveryOutcome(t *testing.T) {
	const path = "../../cmd/queuectl/internal/top/classes.json"
	classes := map[string]string{}
	for _, o := range Outcomes() {
		classes[o.String()] = o.Class().String()
	}
	want, err := json.MarshalIndent(classes, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the outcomes (%v); run: go test ./pkg/gate -run Queuectl -update", path, err)
	}
}

func TestEveryOutcomeIsSucceededRejectedFailedOrClientError(t *testing.T) {
	want := map[Class][]Outcome{
		ClassSucceeded: {Served, Tunnelled, Probed},
		ClassRejected:  {QueueFull, QueueWaitExpired, DeadlineExceeded, ShuttingDown, NotReady, OutOfMemoryBudget, Evicted, WaitingPage},
		ClassFailed: {RequestTimeout, ResponseStartTimeout, IdleTimeout, UpstreamNotListening, UpstreamClosed, UpstreamReset,
			UpstreamMalformed, UpstreamBrokeOff, InternalError, UpstreamTLSFailed, NotEventStream},
		ClassClientError: {BadRequest, TargetTooLong, HeadTooLarge, ExpectationFailed, MethodNotAllowed, CodingNotImplemented,
			VersionNotSupported, HeadTimeout, ClientGone, ProbeRejected, PlaintextRejected},
	}
	for _, o := range Outcomes() {
		if !slices.Contains(want[o.Class()], o) {
			t.Errorf("%v is of class %q", o, o.Class())
		}
	}
}

func TestContainerResponsesFrom500CountAsFailures(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		status  int
		want    Class
	}{
		{Served, 200, ClassSucceeded}, {Served, 404, ClassSucceeded}, {Served, 500, ClassFailed}, {Served, 503, ClassFailed}, {Tunnelled, 101, ClassSucceeded},
		{QueueFull, 503, ClassRejected}, {CodingNotImplemented, 501, ClassClientError}, {ClientGone, 499, ClassClientError},
	} {
		if got := ClassOf(c.outcome, c.status); got != c.want {
			t.Errorf("%v with %d: %v, want %v", c.outcome, c.status, got, c.want)
		}
	}
}
