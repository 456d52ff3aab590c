package render

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

var update = flag.Bool("update", false, "write the table of values in the chart's README")

func TestTopologyConstraintsSelectThePodsOfTheRelease(t *testing.T) {
	d := find(t, chart(t, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway},
		{maxSkew: 2, topologyKey: node, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]}`), "Deployment").typed.(*appsv1.Deployment)
	all := d.Spec.Template.Spec.TopologySpreadConstraints
	if len(all) != 2 || all[0].MaxSkew != 1 || !maps.Equal(all[0].LabelSelector.MatchLabels, d.Spec.Selector.MatchLabels) ||
		!maps.Equal(all[1].LabelSelector.MatchLabels, map[string]string{"a": "b"}) {
		t.Errorf("got %+v", all)
	}
}

func TestAServiceAccountIsCreatedOnRequest(t *testing.T) {
	all := chart(t, `{serviceAccount: {create: true}}`)
	account := find(t, all, "ServiceAccount").typed.(*corev1.ServiceAccount)
	if got := podOf(t, all).Spec.ServiceAccountName; got != account.Name || got != "web" {
		t.Errorf("the pods use the service account %q, the chart creates %q", got, account.Name)
	}
	if names := kinds(chart(t, `{}`)); slices.Contains(names, "ServiceAccount") {
		t.Errorf("%q", names)
	}
}

// The parent chart has its own Deployment, which includes the gate with templates of
// the queuegate chart, as the README of that chart describes. The queuegate chart then
// adds only the Service and the NetworkPolicy.
func TestASubchartAddsTheServiceAndTheNetworkPolicy(t *testing.T) {
	gate, err := loader.LoadDir(configDir + "helm/queuegate") // a new copy, because AddDependency changes it
	if err != nil {
		t.Fatal(err)
	}
	parent := &helmchart.Chart{
		Metadata: &helmchart.Metadata{Name: "shop", Version: "1.0.0", APIVersion: "v2"},
		Templates: []*helmchart.File{{Name: "templates/deployment.yaml", Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  selector:
    matchLabels: {app: shop}
  template:
    metadata:
      labels: {app: shop}
    spec:
      terminationGracePeriodSeconds: {{ include "queuegate.gracePeriod" .Subcharts.queuegate }}
      initContainers:
        {{- include "queuegate.container" .Subcharts.queuegate | nindent 8 }}
      containers:
        - name: shop
          image: registry.example/shop:1
          lifecycle:
            {{- include "queuegate.lifecycle" .Subcharts.queuegate | nindent 12 }}
`)}},
	}
	parent.AddDependency(gate)
	values := map[string]any{"queuegate": map[string]any{
		"gateOnly": map[string]any{"enabled": true, "selectorLabels": map[string]any{"app": "shop"}},
		"app":      map[string]any{"port": 3000},
	}}
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "default", Revision: 1, IsInstall: true}
	merged, err := chartutil.ToRenderValues(parent, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := renderChart(parent, merged)
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, rendered)
	if names := kinds(all); !slices.Equal(names, []string{"Deployment", "NetworkPolicy", "Service"}) {
		t.Fatalf("got %q", names)
	}
	pod := podOf(t, all)
	env := map[string]string{}
	for _, v := range gateOf(t, pod).Env {
		env[v.Name] = v.Value
	}
	if env["USER_PORT"] != "3000" || *pod.Spec.TerminationGracePeriodSeconds != 330 || pod.Spec.Containers[0].Lifecycle.PreStop.HTTPGet == nil {
		t.Errorf("environment %v", env)
	}
	service := find(t, all, "Service").typed.(*corev1.Service)
	policy := find(t, all, "NetworkPolicy").typed.(*networkingv1.NetworkPolicy)
	if !maps.Equal(service.Spec.Selector, pod.Labels) || !maps.Equal(policy.Spec.PodSelector.MatchLabels, pod.Labels) || service.Name != "shop-gate" {
		t.Errorf("Service %s selects %v, the policy %v", service.Name, service.Spec.Selector, policy.Spec.PodSelector.MatchLabels)
	}
}

const (
	valuesBegin = "<!-- values: begin; go test -C test/render -run README -update -->\n"
	valuesEnd   = "<!-- values: end -->\n"
)

func TestTheREADMEListsEveryValue(t *testing.T) {
	const path = configDir + "helm/queuegate/README.md"
	text := read(t, path)
	before, rest, ok := strings.Cut(text, valuesBegin)
	_, after, closed := strings.Cut(rest, valuesEnd)
	if !ok || !closed {
		t.Fatal("the README has no section for the values")
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, configDir+"helm/queuegate/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	table := "\n| value | default | description |\n|---|---|---|\n"
	rows := valueRows(t, "", document.Content[0])
	if len(rows) < 50 {
		t.Errorf("only %d values", len(rows))
	}
	want := before + valuesBegin + table + strings.Join(rows, "") + "\n" + valuesEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		text = want
	}
	if text != want {
		t.Error("the README differs from values.yaml; run: go test -C test/render -run README -update")
	}
}

// valueRows returns the rows of the README's table for the keys of a YAML mapping. A key
// has one row, and its comment is the description. But if its value is a mapping in which
// at least one key has a comment, valueRows returns the rows of the inner keys instead.
func valueRows(t *testing.T, path string, mapping *yaml.Node) (rows []string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := path + key.Value
		if value.Kind == yaml.MappingNode && slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.LineComment+n.HeadComment != "" }) {
			rows = append(rows, valueRows(t, name+".", value)...)
			continue
		}
		comment := key.HeadComment + key.LineComment + value.LineComment
		if paragraphs := strings.Split(comment, "\n\n"); len(paragraphs) > 0 {
			comment = paragraphs[len(paragraphs)-1]
		}
		comment = strings.Join(strings.Fields(strings.ReplaceAll(comment, "#", "")), " ")
		if comment == "" {
			t.Errorf("values.yaml: %s has no description", name)
		}
		var standard any
		if err := value.Decode(&standard); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", name, asJSON(t, standard), strings.ReplaceAll(comment, "|", `\|`)))
	}
	return rows
}

func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
