package manifest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSetOptionsAreCheckedAgainstTheSettingsOfTheGate(t *testing.T) {
	for assignment, want := range map[string]string{
		"QUEUE_CAPACITY=7": "QUEUE_CAPACITY=7", "queue-capacity=7": "QUEUE_CAPACITY=7", "concurrency=auto": "CONTAINER_CONCURRENCY=auto",
		"timeout=": "REVISION_TIMEOUT_SECONDS=", "queue-fair-by=header:X=Y": "QUEUE_FAIR_BY=header:X=Y",
	} {
		variable, value, err := ParseAssignment(assignment)
		if err != nil || variable+"="+value != want {
			t.Errorf("%s: %s=%s, %v", assignment, variable, value, err)
		}
	}
	for assignment, want := range map[string]string{
		"QUEUE_CAPACITY":     "want NAME=VALUE",
		"QUEUE_CAPCITY=7":    "the gate has no setting QUEUE_CAPCITY, did you mean QUEUE_CAPACITY?",
		"queue-capcity=7":    "did you mean queue-capacity?",
		"QUEUE_CAPACITY=x":   `QUEUE_CAPACITY="x": want a whole number from`,
		"USER_PORT=80":       "inject sets USER_PORT from --user-port",
		"load-reports=maybe": "want off, request or always",
		"timeout=-1":         "want whole seconds",
		"upstream-wait=soon": "want a duration",
		"=1":                 "the gate has no setting",
	} {
		if _, _, err := ParseAssignment(assignment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", assignment, err, want)
		}
	}
}

func TestTheGateRejectsEveryValueThatInjectRejects(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "queue")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/queue")
	build.Dir = "../../../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the gate: %v\n%s", err, text)
	}
	rejected := 0
	for _, value := range []string{"x", "0", "1", "7", "-1", "2.5", "10s", "1.5m", "TRUE", "on", "f", "yes", "auto", "auto:1-9", "off", "64Ki", "16Mi", "1e3", "none", "/a",
		"@a", "{}", "peer", "path:2", "header:X", "NaN", ".5", "1h2m3s", "1_000", "0x10", "1µs", " 7", "+7", "1,5"} {
		cmd := exec.Command(binary, "--check")
		cmd.Env = []string{}
		var names []string
		for _, s := range gateSettings {
			// Skip OpenTelemetry's variables: the gate does not reject their invalid
			// values, but ignores them.
			if !accepts(s.ValidValues, value) && !strings.HasPrefix(s.Variable, "OTEL_") {
				names, cmd.Env = append(names, s.Variable), append(cmd.Env, s.Variable+"="+value)
			}
		}
		text, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the gate accepts all of %q", value, names)
		}
		for _, name := range names {
			rejected++
			if !strings.Contains("\n"+string(text), "\n"+name+"=") {
				t.Errorf("%s=%s: the gate accepts it", name, value)
			}
		}
	}
	if rejected < 300 {
		t.Errorf("only %d values", rejected)
	}
}

func TestResourcesOfTheInjectedGateMustBeValidQuantities(t *testing.T) {
	got, err := ParseResources("requests.cpu=50m,limits.memory=1Gi, limits.cpu=")
	if err != nil || len(got) != 3 || got["requests.cpu"] != "50m" || got["limits.cpu"] != "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, list := range []string{"", "cpu=1", "requests.cpu", "requests.gpu=1", "limits.memory=1 Gi", "limits.memory=lots", "requests.cpu=-1"} {
		if _, err := ParseResources(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
	o := Options{Resources: map[string]string{"requests.memory": "1Gi"}}
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), "requests.memory=1Gi is above limits.memory=128Mi") {
		t.Error(err)
	}
}

func TestFlagsAndAnnotationsSetTheGate(t *testing.T) {
	text := strings.Replace(deployment, "  namespace: shop\n", "  namespace: shop\n  annotations:\n    queuegate.dev/queue-capacity: \"3\"\n    queuegate.dev/timeout: \"60\"\n"+
		"    queuegate.dev/resources: limits.cpu=,requests.memory=64Mi\n    queuegate.dev/image: gate:mine\n    queuegate.dev/user-port: \"3000\"\n    other.dev/x: y\n", 1)
	o := Options{Image: "gate:1", Set: map[string]string{"QUEUE_CAPACITY": "9", "DRAIN_QUIET_SECONDS": "5"}}
	injected, notes := one(File{"web.yaml", text}, o)
	for _, want := range []string{
		`name: QUEUE_CAPACITY value: "3"`, `name: REVISION_TIMEOUT_SECONDS value: "60"`, `name: DRAIN_QUIET_SECONDS value: "5"`, "image: gate:mine",
		`name: USER_PORT value: "3000"`, "terminationGracePeriodSeconds: 85", "requests: cpu: 25m memory: 64Mi limits: memory: 128Mi securityContext",
	} {
		if !strings.Contains(flat(injected), want) {
			t.Errorf("no %s in\n%s%v", want, injected, notes)
		}
	}
	if back, notes := Uninject([]File{{"web.yaml", injected}}); back[0].Text != text || len(notes) > 0 {
		t.Errorf("%v\n%s", notes, back[0].Text)
	}
	for old, want := range map[string]string{"queue-capacity: \"3\"": "queue-capacity: lots", "user-port: \"3000\"": "user-port: http", "timeout: ": "timeuot: "} {
		wrong, notes := one(File{"web.yaml", strings.Replace(text, old, want, 1)}, o)
		name, _, _ := strings.Cut(want, ":")
		if len(notes) != 1 || !notes[0].Failed || !strings.Contains(notes[0].Text, "annotation queuegate.dev/"+name) || strings.Contains(wrong, GateName+"\n") {
			t.Errorf("%s: %v", want, notes)
		}
	}
}
