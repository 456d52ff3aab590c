package render

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func kinds(all []object) (names []string) {
	for _, o := range all {
		names = append(names, o.GetKind())
	}
	return names
}

func text(t *testing.T, o object) string {
	t.Helper()
	b, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// firstDifference finds the first line in which two texts differ. It returns the line
// of the first text, and the line of the second text.
func firstDifference(a, b string) string {
	first, second := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(first), len(second)) {
		if first[i] != second[i] {
			return first[i] + "  <->  " + second[i]
		}
	}
	return "one text is longer"
}

func TestChartAndKustomizationRenderTheSameManifests(t *testing.T) {
	for dir, values := range map[string]string{
		"kubernetes":    `{}`,
		"overlays/hpa":  `{autoscaling: {kind: hpa}}`,
		"overlays/keda": `{autoscaling: {kind: keda}}`,
	} {
		t.Run(dir, func(t *testing.T) {
			want, got := kustomize(t, dir), chart(t, values)
			if !slices.Equal(kinds(got), kinds(want)) {
				t.Fatalf("the chart has %q, the kustomization %q", kinds(got), kinds(want))
			}
			for i := range want {
				if !reflect.DeepEqual(got[i].Object, want[i].Object) {
					t.Errorf("%s: %s", kinds(want)[i], firstDifference(text(t, got[i]), text(t, want[i])))
				}
			}
		})
	}
}

func find(t *testing.T, all []object, kind string) object {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind {
			return o
		}
	}
	t.Fatalf("no %s among %q", kind, kinds(all))
	return object{}
}

func TestThePrometheusRuleEqualsTheRuleFile(t *testing.T) {
	want := readYAML(t, configDir+"prometheus/alerts.yaml")
	for name, all := range map[string][]object{
		"kustomization": kustomize(t, "prometheus"),
		"overlay":       kustomize(t, "overlays/prometheus-operator"),
		"chart":         chart(t, `{prometheusOperator: {enabled: true}}`),
	} {
		if got := find(t, all, "PrometheusRule").Object["spec"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the groups are not those of alerts.yaml", name)
		}
	}
}

func TestTheChartsPodMonitorEqualsTheOneForKubernetes(t *testing.T) {
	endpoint := func(all []object) any {
		spec := find(t, all, "PodMonitor").Object["spec"].(map[string]any)
		return spec["podMetricsEndpoints"].([]any)[0]
	}
	want := endpoint(kustomize(t, "prometheus")).(map[string]any)
	want = maps.Clone(want)
	// The last relabeling is only for Knative's pods.
	relabelings := want["relabelings"].([]any)
	want["relabelings"] = relabelings[:len(relabelings)-1]
	if got := endpoint(chart(t, `{prometheusOperator: {enabled: true}}`)); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the chart has %v, want %v", got, want)
	}
}
