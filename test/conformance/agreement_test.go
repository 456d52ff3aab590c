package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/queuegate/queuegate/test/internal/launch"
)

func (o outcome) seconds() int32 {
	if o.timeout == 0 {
		return 10
	}
	return o.timeout
}

// gateSeconds returns the timeout of a rewritten probe. It is short only if the gate must
// run into it, so that no delay of a process changes the cause.
func (o outcome) gateSeconds() int32 {
	if o.cause == "timeout" {
		return o.seconds()
	}
	return 10
}

// gateReady returns the expected decision of the gate.
func (o outcome) gateReady() bool { return o.ready != (o.differs != "") }

// setting returns SERVING_READINESS_PROBE as Knative's controller writes it.
func (o outcome) setting(t *testing.T, period int32) string {
	return "SERVING_READINESS_PROBE=" + toJSON(t, v1.Probe{
		ProbeHandler: o.probe, TimeoutSeconds: o.seconds(), PeriodSeconds: period, SuccessThreshold: 1, FailureThreshold: 1,
	})
}

// hasCause reports whether word is an expected cause.
func (o outcome) hasCause(cause string) bool {
	return slices.Contains(strings.Split(o.cause, "|"), cause)
}

// events returns the allowed texts of the event that the kubelet writes if the rewritten
// probe fails. There is one text for each possible cause.
func (o outcome) events() (texts []string) {
	for cause := range strings.SplitSeq(o.cause, "|") {
		code := "502"
		switch kind, rest, _ := strings.Cut(cause, " "); kind {
		case "status":
			code = rest
		case "timeout":
			code = "504"
		case "not-serving", "unimplemented":
			code = "503"
		}
		texts = append(texts, "HTTP probe failed with statuscode: "+code)
	}
	return texts
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheKubeletsReadinessDecisionsMatchTheTableOfOutcomes(t *testing.T) {
	for _, o := range outcomes(t) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			if o.gateReady() != (o.cause == "") {
				t.Fatalf("the table contradicts itself: the gate should be ready: %v, cause %q", o.gateReady(), o.cause)
			}
			ready, message := askKubelet(t, o.probe, time.Duration(o.seconds())*time.Second)
			if ready != o.ready {
				t.Errorf("the kubelet decides ready=%v: %s", ready, message)
			}
		})
	}
}

func TestReadinessOfTheGateAgreesWithTheKubelet(t *testing.T) {
	for _, o := range outcomes(t) {
		for schedule, settings := range map[string][]string{
			"adaptive": {o.setting(t, 0), "READINESS_WAIT=100ms"},
			"periodic": {o.setting(t, 1)},
		} {
			t.Run(o.name+"/"+schedule, func(t *testing.T) {
				t.Parallel()
				// Nothing listens on the user port, because each probe names another
				// port.
				g := startGate(t, launch.FreePort(t), settings...)
				var reason string
				eventually(t, fmt.Sprintf("the gate gives the reason %q", o.cause), func() bool {
					last := reason
					if reason = g.reason(); reason != last {
						t.Logf("reason %q", reason)
					}
					return o.hasCause(reason)
				})
				eventually(t, fmt.Sprintf("the kubelet gets ready=%v from the gate", o.gateReady()), func() bool {
					ready, _ := askKubelet(t, queueProbe(g.port), testTimeout)
					return ready == o.gateReady()
				})
			})
		}
	}
}

// appProbe is an element of KUBE_APP_PROBERS.
type appProbe struct {
	v1.ProbeHandler
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

func TestRewrittenApplicationProbesAgreeWithTheKubelet(t *testing.T) {
	all := outcomes(t)
	probers := map[string]appProbe{}
	path := func(i int) string { return fmt.Sprintf("/app-health/c%d/readyz", i) }
	for i, o := range all {
		probers[path(i)] = appProbe{o.probe, o.gateSeconds()}
	}
	g := startGate(t, launch.FreePort(t), "KUBE_APP_PROBERS="+toJSON(t, probers))
	t.Run("all", func(t *testing.T) {
		for i, o := range all {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				ready, message := askKubelet(t, get(g.admin, path(i)), testTimeout)
				if ready != o.gateReady() {
					t.Fatalf("the kubelet gets ready=%v from the gate: %s", ready, message)
				}
				if want := o.events(); !ready && !slices.Contains(want, message) {
					t.Errorf("event: got %q, want %q", message, want)
				}
			})
		}
	})
}
