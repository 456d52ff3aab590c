package doctor

import (
	"os"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/manifest"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func examine(t *testing.T, texts ...string) []Finding {
	t.Helper()
	var o Objects
	for _, text := range texts {
		if err := o.Add(text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	findings, _ := o.Examine()
	return findings
}

const golden = "../manifest/testdata/golden/plain.yaml"

func TestInjectedManifestsHaveNoFindings(t *testing.T) {
	if findings := examine(t, read(t, golden)); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
	for _, name := range []string{"json.json", "cronjob.yaml", "collide.yaml", "multi.yaml"} {
		files, _ := manifest.Inject([]manifest.File{{Text: read(t, "../manifest/testdata/"+name)}}, manifest.Options{Image: "x", Services: true})
		if findings := examine(t, files[0].Text); len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

func TestTheManifestsInConfigHaveNoFindings(t *testing.T) {
	const dir = "../../../../config/kubernetes/"
	if findings := examine(t, read(t, dir+"deployment.yaml"), read(t, dir+"service.yaml")); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
}

func TestProblemsAreFound(t *testing.T) {
	healthy := read(t, golden)
	for _, c := range []struct{ old, new, want string }{
		{"        - name: queuegate\n", "        - name: other\n          command: [sh]\n          image: x # ", "error: has no gate"},
		{"          restartPolicy: Always\n", "", "error: the gate is an init container without restartPolicy"},
		{"                - name: K-Network-Probe\n                  value: queue\n", "                - name: X\n                  value: queue\n", "error: the gate's readinessProbe does not check the application"},
		{"          readinessProbe:\n            periodSeconds: 1\n", "          x:\n            periodSeconds: 1\n", "error: the gate has no readinessProbe"},
		{"              path: /health/alive\n              port: 8022\n          readinessProbe", "              path: /healthz\n              port: 8022\n          readinessProbe", "error: the gate's livenessProbe checks the application"},
		{"          # Restarted after a minute.\n", "          readinessProbe: {tcpSocket: {port: http}}\n", "warning: container web: the kubelet runs its readinessProbe"},
		{"              path: /app-health/web/livez\n              port: 8022\n", "              path: /livez\n              port: 8012\n", "error: container web: its livenessProbe goes to the gate's serving port"},
		{"              path: /app-health/web/livez\n", "              path: /app-health/web/readyz\n", "error: container web: its livenessProbe goes to /app-health/web/readyz"},
		{"targetPort: queue-http", "targetPort: http", "error: Service web bypasses the gate: its port 80 leads to http"},
		{"targetPort: queue-http", "targetPort: missing", "error: Service web: its port 80 leads to missing, which no container has"},
		{"terminationGracePeriodSeconds: 330", "terminationGracePeriodSeconds: 10", "error: terminationGracePeriodSeconds is 10"},
		{"      terminationGracePeriodSeconds: 330\n", "", "warning: terminationGracePeriodSeconds is 30: requests may take until 310"},
		{"                  - drain\n", "                  - version\n", "error: the gate is a native sidecar without a preStop hook"},
		{"              httpGet:\n                path: /wait-for-drain?begins-within=10s\n                port: 8022\n", "", "warning: container web has no preStop hook"},
		{"            runAsUser: 65532\n", "", "warning: runAsNonRoot without a numeric runAsUser"},
		{"            runAsUser: 65532\n", "            runAsUser: 0\n", "error: runAsNonRoot with runAsUser 0"},
		{"              containerPort: 8080\n", "              containerPort: 8080\n            - containerPort: 9090\n", "error: container web and the gate both have port 9090: AUTOSCALER_METRICS_PORT"},
		{"              value: \"8080\"\n", "              value: \"8081\"\n", "warning: no container declares port 8081"},
		{"              containerPort: 8080\n", "              containerPort: 8080\n              hostPort: 80\n", "error: container web: hostPort 80 of the node bypasses the gate"},
		{"            - name: http\n", "            - name: https\n", "error: the application uses TLS (its port is named https)"},
		{`"path":"/healthz","port":8080}`, `"path":"/healthz","port":8080,"scheme":"HTTPS"}`, "error: the application uses TLS (its probe has the scheme HTTPS)"},
		{"  selector:\n    app: web\n", "  clusterIP: None\n  selector:\n    app: web\n", "error: Service web is headless"},
	} {
		text := strings.Replace(healthy, c.old, c.new, 1)
		if text == healthy && c.want != "" {
			t.Errorf("%q is not there", c.old)
			continue
		}
		findings := examine(t, text)
		found := c.want == "" && len(findings) == 0
		for _, f := range findings {
			found = found || c.want != "" && strings.HasPrefix(f.String(), "deployment/web: "+c.want)
		}
		if !found || len(findings) > 1 {
			t.Errorf("want %q, got %v", c.want, findings)
		}
	}
}

func TestDoctorFindsAServiceWhoseVariableHasTheNameOfASetting(t *testing.T) {
	const metrics = "apiVersion: v1\nkind: Service\nmetadata: {name: metrics}\nspec: {selector: {app: other}, ports: [{port: 80}]}\n"
	findings := examine(t, read(t, golden), metrics)
	if len(findings) != 1 || !findings[0].Warning || !strings.Contains(findings[0].Text, "METRICS_PORT") {
		t.Errorf("%v", findings)
	}
	off := strings.Replace(read(t, golden), "      initContainers:", "      enableServiceLinks: false\n      initContainers:", 1)
	if findings := examine(t, off, metrics); len(findings) != 0 {
		t.Errorf("%v", findings)
	}
}

func TestTheStateOfARunningPodsContainersIsReported(t *testing.T) {
	text := strings.Split(read(t, golden), "\n---\n")[0]
	text = strings.Replace(text, "kind: Deployment", "kind: Pod", 1)
	_, spec, _ := strings.Cut(text, "    spec:\n")
	var b strings.Builder
	b.WriteString("kind: Pod\nmetadata: {name: web}\nspec:\n")
	for line := range strings.Lines(spec) {
		b.WriteString(strings.TrimPrefix(line, "    "))
	}
	b.WriteString("\nstatus:\n  initContainerStatuses:\n  - name: queuegate\n    state: {waiting: {reason: CreateContainerConfigError, message: no user}}\n" +
		"  containerStatuses:\n  - name: web\n    restartCount: 3\n    state: {waiting: {reason: PodInitializing}}\n")
	findings := examine(t, b.String())
	if len(findings) != 2 || findings[0].String() != "pod/web: error: container queuegate does not run: CreateContainerConfigError no user" ||
		findings[1].String() != "pod/web: warning: container web was restarted 3 times" {
		t.Errorf("%v", findings)
	}
}

func TestANetworkPolicyThatBlocksTheGateIsFound(t *testing.T) {
	const policy = "kind: NetworkPolicy\nmetadata: {name: web}\nspec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 8080}]}]}\n"
	findings := examine(t, read(t, golden), policy)
	if len(findings) != 1 || findings[0].String() != "deployment/web: error: NetworkPolicy web allows port 8080 of the application and not port 8012 of the gate: no request arrives" {
		t.Errorf("%v", findings)
	}
	for name, healthy := range map[string]string{
		"allowed":         strings.Replace(policy, "{port: 8080}", "{port: 8080}, {port: queue-http}", 1),
		"a range":         strings.Replace(policy, "{port: 8080}", "{port: 8000, endPort: 8100}", 1),
		"another policy":  policy + "---\n" + strings.Replace(policy, "8080", "8012", 1),
		"all ports":       strings.Replace(policy, "ports: [{port: 8080}]", "", 1),
		"egress":          strings.Replace(policy, "spec: {", "spec: {policyTypes: [Egress], ", 1),
		"other pods":      strings.Replace(policy, "app: web", "app: db", 1),
		"other namespace": strings.Replace(strings.Replace(policy, "name: web", "name: web, namespace: b", 1), "kind", "kind", 1) + "---\n",
	} {
		text := read(t, golden)
		if name == "other namespace" {
			text = strings.Replace(text, "  name: web ", "  namespace: a\n  name: web ", 1)
		}
		if findings := examine(t, text, healthy); len(findings) != 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

func TestAPortNameUsedByTwoContainersIsFound(t *testing.T) {
	text := strings.Replace(read(t, golden), "        # The one and only.\n", "        - name: metrics\n          ports: [{name: http, containerPort: 9113}]\n          lifecycle: {preStop: {sleep: {seconds: 1}}}\n", 1)
	text = strings.Replace(text, "targetPort: queue-http", "targetPort: http", 1)
	findings := examine(t, text)
	if len(findings) != 1 || !strings.HasPrefix(findings[0].Text, "Service web: its port 80 leads to http, a port of more than one container") {
		t.Errorf("%v", findings)
	}
}
