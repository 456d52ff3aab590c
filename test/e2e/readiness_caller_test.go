package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
)

var quiet = log.New(io.Discard, "", 0)

// Fields that identify a prober.
var (
	kubelet   = []string{"User-Agent: kube-probe/1.33", "K-Network-Probe: queue"}
	activator = []string{"User-Agent: Knative-Activator-Probe", "K-Network-Probe: queue"}
)

func startGateFor(t *testing.T, a *app, probe string, settings ...string) *gate {
	t.Helper()
	return startGate(t, &container{port: a.port}, append([]string{"SERVING_READINESS_PROBE=" + probe}, settings...)...)
}

// ask sends a probe on a new connection.
func (g *gate) ask(prober []string) response {
	g.t.Helper()
	c := dial(g.t, g)
	defer c.close()
	return c.get("/healthz", prober...)
}

// ready fails unless this is the response of a ready gate.
func (a response) ready() {
	a.t.Helper()
	a.is(200, "queue")
	a.field("Content-Type", "text/plain; charset=utf-8")
	a.field("K-Gate-Outcome", "probed")
	a.lacks("K-Readiness-Reason", "Retry-After")
	a.byGate()
}

// notReady fails unless this is the response of a gate that is not ready for this reason.
func (a response) notReady(reason string) {
	a.t.Helper()
	a.is(503, "")
	a.field("K-Gate-Outcome", "not-ready")
	a.field("K-Readiness-Reason", reason)
	a.lacks("Content-Type")
	a.byGate()
}

// becomesNotReady probes until the gate is not ready for this reason.
func (g *gate) becomesNotReady(prober []string, reason string) {
	g.t.Helper()
	var a response
	eventually(g.t, "the reason is "+reason, func() bool {
		a = g.ask(prober)
		return a.get("K-Readiness-Reason") == reason
	})
	a.notReady(reason)
}

// becomesReady probes until the gate is ready.
func (g *gate) becomesReady(prober []string) {
	g.t.Helper()
	var a response
	eventually(g.t, "the gate is ready", func() bool {
		a = g.ask(prober)
		return a.status == 200
	})
	a.ready()
}

// change is a log line that reports a change of a container or of an application probe.
type change struct {
	Severity, Message         string
	Container, From, To, Path string
	Cause                     string
	Attempts                  int
}

// changes returns the log lines so far that report a change. Every line must be JSON.
func (g *gate) changes() []change {
	g.t.Helper()
	var all []change
	for line := range strings.Lines(g.Stderr.String()) {
		if !strings.HasSuffix(line, "\n") {
			continue // incomplete
		}
		var c change
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			g.t.Fatalf("a log line is not JSON: %v: %q", err, line)
		}
		if c.To != "" || c.From != "" {
			all = append(all, c)
		}
	}
	return all
}

// changed waits until the log has exactly these changes, each as "container: from > to
// (cause)".
func (g *gate) changed(want ...string) {
	g.t.Helper()
	var got []string
	eventually(g.t, "the log has "+strings.Join(want, "; "), func() bool {
		got = nil
		for _, c := range g.changes() {
			s := fmt.Sprintf("%s: %s > %s", c.Container, c.From, c.To)
			if c.Cause != "" {
				s += " (" + c.Cause + ")"
			}
			got = append(got, s)
		}
		return len(got) >= len(want)
	})
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		g.t.Fatalf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
