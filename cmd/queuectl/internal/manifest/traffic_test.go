package manifest

import (
	"slices"
	"strings"
	"testing"

	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

const deployment = `kind: Deployment
apiVersion: apps/v1
metadata:
  name: web
  namespace: shop
spec:
  template:
    metadata:
      labels: {app: web, tier: front}
    spec:
      containers:
      - name: web
        image: web
        ports:
        - name: http
          containerPort: 8080
`

const networkPolicy = `---
kind: NetworkPolicy
apiVersion: networking.k8s.io/v1
metadata:
  name: web
spec:
  podSelector:
    matchLabels: {app: web}
    matchExpressions:
    - {key: tier, operator: In, values: [front]}
  ingress:
  - from:
    - podSelector: {}
    ports:
    # Only this.
    - protocol: TCP
      port: 8080
`

func TestANetworkPolicyForTheApplicationAllowsTheGate(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		added          bool
	}{
		{"by number", "", "", true},
		{"by name", "port: 8080\n", "port: http\n", true},
		{"a range", "port: 8080\n", "port: 8070\n      endPort: 8090\n", true},
		{"in flow style", "    # Only this.\n    - protocol: TCP\n      port: 8080\n", "    - {port: 8080}\n", true},
		{"all ports", "    ports:\n    # Only this.\n    - protocol: TCP\n      port: 8080\n", "", false},
		{"a range with the gate", "port: 8080\n", "port: 8000\n      endPort: 8090\n", false},
		{"the gate already", "    # Only this.\n", "    - port: 8012\n", false},
		{"other pods", "{app: web}", "{app: db}", false},
		{"another expression", "values: [front]", "values: [back]", false},
		{"another namespace", "  name: web\nspec:\n  podSelector", "  name: web\n  namespace: other\nspec:\n  podSelector", false},
		{"UDP", "protocol: TCP", "protocol: UDP", false},
	} {
		text := deployment + strings.Replace(networkPolicy, c.old, c.new, 1)
		injected, notes := one(File{"web.yaml", text}, options)
		_, document, _ := strings.Cut(injected, "\n---\n")
		var policy networking.NetworkPolicy
		if err := yaml.UnmarshalStrict([]byte(document), &policy); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, document)
		}
		ports := policy.Spec.Ingress[0].Ports
		if got := policy.Annotations[Annotation] != ""; got != c.added || c.added && (len(ports) != 2 || ports[0].Port.IntValue() != 8012) {
			t.Errorf("%s: %v\n%s", c.name, notes, document)
		}
		if back, notes := Uninject([]File{{"web.yaml", injected}}); back[0].Text != text || len(notes) > 0 {
			t.Errorf("%s: %v\n%s", c.name, notes, back[0].Text)
		}
		if second, _ := one(File{"web.yaml", injected}, options); second != injected {
			t.Errorf("%s: injected again:\n%s", c.name, second)
		}
	}
}

func TestInjectFailsIfRequestsWouldBypassTheGate(t *testing.T) {
	const service = "---\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  clusterIP: None\n  ports:\n  - port: 80\n    targetPort: http\n"
	second := strings.Replace(deployment, "      - name: web\n", "      - name: metrics\n        ports:\n        - {name: http, containerPort: 9113}\n      - name: web\n", 1)
	off := options
	off.Services = false
	for _, c := range []struct {
		name, text, want string
		hazard           string
		o                Options
	}{
		{"headless", deployment + service, "service/web: it is headless", "headless", options},
		{"hostPort", deployment + "          hostPort: 80\n", "deployment/web: container web: hostPort 80", "host-port", options},
		{"policy", deployment + networkPolicy, "networkpolicy/web: allows port 8080 of the application and not port 8012", "network-policy", off},
		{"two ports named http", second, "deployment/web: left unchanged: the containers metrics, web all have a port", "", options},
	} {
		_, notes := one(File{"web.yaml", c.text}, c.o)
		failed := func(notes []Note) int {
			return slices.IndexFunc(notes, func(n Note) bool { return n.Failed && strings.HasPrefix(n.String(), "web.yaml: "+c.want) })
		}
		if failed(notes) < 0 {
			t.Errorf("%s: %v", c.name, notes)
		}
		if c.hazard != "" {
			c.o.Accept = []string{c.hazard}
			if _, notes := one(File{"web.yaml", c.text}, c.o); failed(notes) >= 0 || len(notes) == 0 {
				t.Errorf("%s, accepted: %v", c.name, notes)
			}
		}
	}
}

// Kubernetes resolves a name to the first port with this name.
func TestATargetPortNameOfTwoContainersLeadsToTheFirstContainer(t *testing.T) {
	text := strings.Replace(deployment, "      - name: web\n", "      - name: metrics\n        ports:\n        - {name: http, containerPort: 9113}\n      - name: web\n", 1) +
		"---\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  ports:\n  - {port: 9113, targetPort: http}\n  - {port: 80, targetPort: 8080}\n"
	o := options
	o.Container = "web"
	injected, _ := one(File{"web.yaml", text}, o)
	if !strings.Contains(injected, "{port: 9113, targetPort: http}") || !strings.Contains(injected, `{port: 80, targetPort: "queue-http"}`) {
		t.Errorf("got:\n%s", injected)
	}
}

func TestAPortNamedForHTTPIsTheApplicationsPort(t *testing.T) {
	text := strings.Replace(deployment, "      - name: web\n", "      - name: metrics\n        ports:\n        - {name: metrics, containerPort: 9113}\n      - name: web\n", 1)
	injected, _ := one(File{"web.yaml", text}, options)
	if !strings.Contains(flat(injected), `name: USER_PORT value: "8080"`) {
		t.Errorf("got:\n%s", injected)
	}
}

func TestInjectSetsUpstreamTLSForAnApplicationWithTLS(t *testing.T) {
	probe := "        readinessProbe:\n          httpGet: {path: /, port: http, scheme: HTTPS}\n"
	for name, text := range map[string]string{
		"probe":          deployment + probe,
		"liveness probe": deployment + strings.Replace(probe, "readiness", "liveness", 1),
		"port":           strings.Replace(deployment, "name: http\n", "name: https\n", 1),
	} {
		injected, notes := one(File{"web.yaml", text}, options)
		if !strings.Contains(flat(injected), `name: UPSTREAM_TLS value: "true" - name: UPSTREAM_TLS_INSECURE value: "true"`) || len(notes) != 1 {
			t.Errorf("%s: %v\n%s", name, notes, injected)
		}
		o := options
		o.Set = map[string]string{"UPSTREAM_TLS_CA": "/ca/ca.crt"}
		if injected, notes := one(File{"web.yaml", text}, o); !strings.Contains(injected, "name: UPSTREAM_TLS\n") || strings.Contains(injected, "INSECURE") || len(notes) > 0 {
			t.Errorf("%s with a CA: %v\n%s", name, notes, injected)
		}
	}
	if injected, _ := one(File{"web.yaml", deployment + strings.Replace(probe, "port: http", "port: 9443", 1)}, options); strings.Contains(injected, "UPSTREAM_TLS") {
		t.Error("TLS in a probe of another port counts for the application")
	}
}

// flat replaces indentation and line endings with single spaces.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
