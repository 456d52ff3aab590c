package kyverno

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	policiesv1 "github.com/kyverno/api/api/policies.kyverno.io/v1"
	policiesv1beta1 "github.com/kyverno/api/api/policies.kyverno.io/v1beta1"
	celengine "github.com/kyverno/kyverno/pkg/cel/engine"
	"github.com/kyverno/kyverno/pkg/cel/libs"
	"github.com/kyverno/kyverno/pkg/cel/matching"
	"github.com/kyverno/kyverno/pkg/cel/policies/mpol"
	"github.com/kyverno/kyverno/pkg/cel/policies/mpol/compiler"
	"github.com/kyverno/kyverno/pkg/cel/policies/mpol/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi/openapitest"
	"sigs.k8s.io/yaml"
)

const (
	policyFile = "../../config/knative/canary-kyverno.yaml"
	podFile    = "../admission/testdata/pod.json"
	ourName    = "registry.example/queuegate:dev"
)

// policy decodes the policy strictly as v1, and converts it to the engine's type.
func policy(t *testing.T) *policiesv1beta1.MutatingPolicy {
	t.Helper()
	text, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &policiesv1.MutatingPolicy{}); err != nil {
		t.Fatal(err)
	}
	p := &policiesv1beta1.MutatingPolicy{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func readPod(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(podFile)
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// admit returns the object with the engine's changes, and the results of the engine's
// rules.
func admit(t *testing.T, p *policiesv1beta1.MutatingPolicy, object *unstructured.Unstructured, group, version, resource string) (*unstructured.Unstructured, []engineapi.RuleStatus) {
	t.Helper()
	provider, err := engine.NewProvider(compiler.NewCompiler(), []policiesv1beta1.MutatingPolicyLike{p}, nil, libs.NewFakeContextProvider())
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace(), Labels: map[string]string{"queuegate": "canary"}}}
	e := engine.NewEngine(provider, func(string) *corev1.Namespace { return namespace }, matching.NewMatcher(),
		compiler.NewStaticTypeConverterManager(openapitest.NewEmbeddedFileClient()), libs.NewFakeContextProvider())
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	gvk := object.GroupVersionKind()
	response, err := e.Handle(t.Context(), celengine.RequestFromAdmission(libs.NewFakeContextProvider(), admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: object.GetNamespace(), Name: object.GetName(),
		Kind:     metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
		Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Object:   runtime.RawExtension{Raw: raw},
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	var statuses []engineapi.RuleStatus
	for _, policy := range response.Policies {
		for _, rule := range policy.Rules {
			statuses = append(statuses, rule.Status())
		}
	}
	if response.PatchedResource == nil {
		return object, statuses
	}
	return response.PatchedResource, statuses
}

// withImage returns a copy of object in which the container queue-proxy has the gate's
// image. The parameter path contains the names of the fields that lead from the object
// to the pod spec.
func withImage(t *testing.T, object *unstructured.Unstructured, path ...string) *unstructured.Unstructured {
	t.Helper()
	object = object.DeepCopy()
	list, _, err := unstructured.NestedSlice(object.Object, append(path, "containers")...)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, c := range list {
		if c := c.(map[string]any); c["name"] == "queue-proxy" {
			c["image"] = ourName
			changed++
		}
	}
	if changed != 1 || len(list) != 2 {
		t.Fatalf("%d of %d containers are queue-proxy", changed, len(list))
	}
	if err := unstructured.SetNestedSlice(object.Object, list, append(path, "containers")...); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestKyvernoAcceptsThePolicy(t *testing.T) {
	if warnings, err := mpol.Validate(policy(t)); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestKyvernoGivesTheGateToLabelledPodsOfKnativeOnly(t *testing.T) {
	pod := readPod(t)
	got, statuses := admit(t, policy(t), pod, "", "v1", "pods")
	if want := withImage(t, pod, "spec"); !reflect.DeepEqual(got.Object, want.Object) {
		t.Errorf("rules %v, got\n%v\nwant\n%v", statuses, got.Object, want.Object)
	}
	if want := []engineapi.RuleStatus{engineapi.RuleStatusPass}; !reflect.DeepEqual(statuses, want) {
		t.Errorf("rules %v, want %v", statuses, want)
	}

	unlabelled := readPod(t)
	unlabelled.SetLabels(map[string]string{"queuegate": "stable"})
	podWithoutGate := readPod(t)
	list, _, _ := unstructured.NestedSlice(podWithoutGate.Object, "spec", "containers")
	for _, c := range list {
		if c := c.(map[string]any); c["name"] == "queue-proxy" {
			c["name"] = "another"
		}
	}
	if err := unstructured.SetNestedSlice(podWithoutGate.Object, list, "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]*unstructured.Unstructured{"another label": unlabelled, "no queue-proxy": podWithoutGate} {
		if got, statuses := admit(t, policy(t), pod, "", "v1", "pods"); !reflect.DeepEqual(got, pod) {
			t.Errorf("%s: rules %v, changed to\n%v", name, statuses, got)
		}
	}
}

// Kyverno derives rules for Deployments from a policy for pods, unless the policy
// disables that. With such rules, Kyverno would change the image of a Deployment, and
// Knative's controller would change it back, again and again.
func TestKyvernoDoesNotChangeDeployments(t *testing.T) {
	pod := readPod(t)
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web-00001-deployment", "namespace": "shop", "labels": map[string]any{"queuegate": "canary"}},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web-00001"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web-00001"}}, "spec": pod.Object["spec"]},
		},
	}}
	// This variant of the policy selects a labelled namespace instead of labelled pods.
	// A comment in the policy's file describes it.
	p := policy(t)
	p.Spec.MatchConstraints.NamespaceSelector, p.Spec.MatchConstraints.ObjectSelector = p.Spec.MatchConstraints.ObjectSelector, nil
	if got, statuses := admit(t, p, deployment, "apps", "v1", "deployments"); !reflect.DeepEqual(got, deployment) {
		t.Errorf("rules %v, changed to\n%v", statuses, got)
	}
	if got, _ := admit(t, p, pod, "", "v1", "pods"); !reflect.DeepEqual(got.Object, withImage(t, pod, "spec").Object) {
		t.Errorf("the pod is\n%v", got.Object)
	}
	p.Spec.AutogenConfiguration = nil
	got, statuses := admit(t, p, deployment, "apps", "v1", "deployments")
	if want := withImage(t, deployment, "spec", "template", "spec"); !reflect.DeepEqual(got.Object, want.Object) {
		t.Errorf("without autogen.podControllers: rules %v, got\n%v\nwant\n%v", statuses, got.Object, want.Object)
	}
}
