package manifests

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// documentedPorts returns the port settings, by default value.
func documentedPorts(t *testing.T) map[int]string {
	t.Helper()
	ports := map[int]string{}
	for name, cells := range firstColumn(t, settingsDoc) {
		if !strings.HasSuffix(name, "_PORT") {
			continue
		}
		if port, err := strconv.Atoi(strings.Trim(cells[2], "`")); err == nil {
			ports[port] = name
		}
	}
	ports[8013] = "QUEUE_SERVING_PORT" // Knative uses it for services that speak h2c
	if len(ports) < 8 {
		t.Fatalf("ports %v", ports)
	}
	return ports
}

// portsOf returns the port numbers in a file, including those in JSON probes.
func portsOf(t *testing.T, f file) (numbers []int) {
	t.Helper()
	for _, d := range f.documents {
		walk(d, func(o map[string]any) {
			if _, service := o["targetPort"]; service {
				return // the application's port; see TestPortNamesInManifestsReferToPortsOfTheGate
			}
			for _, key := range []string{"containerPort", "port"} {
				if port, ok := o[key].(int); ok {
					numbers = append(numbers, port)
				}
			}
			if text, ok := o["value"].(string); ok && strings.HasPrefix(text, "{") {
				var inner any
				if err := json.Unmarshal([]byte(text), &inner); err != nil {
					t.Errorf("%s: %v: %v", f.name, o["name"], err)
				}
				walk(inner, func(o map[string]any) {
					if port, ok := o["port"].(float64); ok {
						numbers = append(numbers, int(port))
					}
				})
			}
		})
	}
	return numbers
}

func TestEveryPortIsDocumented(t *testing.T) {
	documented := documentedPorts(t)
	found := 0
	for _, f := range files(t) {
		for _, port := range portsOf(t, f) {
			found++
			if documented[port] == "" {
				t.Errorf("%s: nothing listens on %d", f.name, port)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d ports", found)
	}
}

func TestPortNamesInManifestsReferToPortsOfTheGate(t *testing.T) {
	documented := documentedPorts(t)
	settings := map[string]string{
		"http-usermetric": "METRICS_PORT", // in Knative's own pods
	}
	for _, container := range gates(t) {
		ports, _ := container["ports"].([]any)
		for _, p := range ports {
			p := p.(map[string]any)
			settings[p["name"].(string)] = documented[p["containerPort"].(int)]
		}
	}
	found := 0
	lead := func(f file, name, want string) {
		found++
		if settings[name] != want {
			t.Errorf("%s: %q leads to %q, want %s", f.name, name, settings[name], want)
		}
	}
	for _, f := range files(t) {
		for _, d := range f.documents {
			walk(d, func(o map[string]any) {
				if port, ok := o["targetPort"]; ok {
					found++
					if got := documented[port.(int)]; got != "QUEUE_SERVING_PORT" {
						t.Errorf("%s: %v leads to %q", f.name, port, got)
					}
				}
				if name, ok := o["port"].(string); ok {
					lead(f, name, "METRICS_PORT")
				}
				if source, ok := o["source_labels"].([]any); ok && source[0] == "__meta_kubernetes_pod_container_port_name" {
					for name := range strings.SplitSeq(o["regex"].(string), "|") {
						lead(f, name, "METRICS_PORT")
					}
				}
			})
		}
	}
	if found != 5 {
		t.Errorf("%d names, want one of a Service and two of each scrape configuration", found)
	}
}
