package admission

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"sigs.k8s.io/yaml"

	"github.com/queuegate/queuegate/internal/testkit"
)

const (
	folder  = "../../config/knative/"
	ourName = "registry.example/queuegate:dev"
)

// client is a fake cluster with the OpenAPI documents of Kubernetes, which tell the
// plugin how to merge the lists of a pod.
type client struct{ *fake.Clientset }

type documents struct{ discovery.DiscoveryInterface }

func (c client) Discovery() discovery.DiscoveryInterface { return documents{c.Clientset.Discovery()} }
func (documents) OpenAPIV3() openapi.Client              { return openapitest.NewEmbeddedFileClient() }

// canary returns the policy and the binding, without the fields that v1beta1 lacks.
func canary(t *testing.T) (*v1beta1.MutatingAdmissionPolicy, *v1beta1.MutatingAdmissionPolicyBinding) {
	t.Helper()
	text, err := os.ReadFile(folder + "canary-v1beta1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.Split(text, []byte("\n---\n"))
	if len(parts) != 2 {
		t.Fatalf("%d objects, want 2", len(parts))
	}
	policy, binding := &v1beta1.MutatingAdmissionPolicy{}, &v1beta1.MutatingAdmissionPolicyBinding{}
	for i, object := range []any{policy, binding} {
		if err := yaml.UnmarshalStrict(parts[i], object); err != nil {
			t.Fatal(err)
		}
	}
	if policy.APIVersion != v1beta1.SchemeGroupVersion.String() || binding.APIVersion != policy.APIVersion {
		t.Fatalf("versions %s and %s", policy.APIVersion, binding.APIVersion)
	}
	// The API server would set these defaults.
	for _, m := range []*v1beta1.MatchResources{policy.Spec.MatchConstraints, binding.Spec.MatchResources} {
		if m.NamespaceSelector == nil {
			m.NamespaceSelector = &metav1.LabelSelector{}
		}
		if m.ObjectSelector == nil {
			m.ObjectSelector = &metav1.LabelSelector{}
		}
		equivalent := v1beta1.Equivalent
		m.MatchPolicy = &equivalent
	}
	return policy, binding
}

func startPlugin(t *testing.T) *mutating.Plugin {
	t.Helper()
	policy, binding := canary(t)
	c := client{fake.NewClientset(policy, binding, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})}
	factory := informers.NewSharedInformerFactory(c, 0)
	gates := feature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(map[string]bool{string(features.MutatingAdmissionPolicy): true}); err != nil {
		t.Fatal(err)
	}
	plugin := mutating.NewPlugin(nil)
	initializer.New(c, dynamicfake.NewSimpleDynamicClient(scheme.Scheme), factory, authorizerfactory.NewAlwaysAllowAuthorizer(),
		gates, compatibility.DefaultBuildEffectiveVersion(), t.Context().Done(),
		meta.NewDefaultRESTMapper(nil)).Initialize(plugin)
	plugin.SetEnabled(true)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return plugin
}

// admit returns the pod with the plugin's changes.
func admit(t *testing.T, plugin *mutating.Plugin, pod *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	pod = pod.DeepCopy()
	attributes := admission.NewAttributesRecord(pod, nil, pod.GroupVersionKind(), pod.GetNamespace(), pod.GetName(),
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "controller"})
	if err := plugin.Admit(t.Context(), attributes, admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil {
		t.Fatal(err)
	}
	return attributes.GetObject().(*unstructured.Unstructured)
}

func TestTheAPIServerGivesTheGateToLabelledPodsOfKnativeOnly(t *testing.T) {
	plugin := startPlugin(t)
	pod := readPod(t)
	want := containers(t, pod)
	if want["queue-proxy"] == nil || len(want) != 2 {
		t.Fatalf("the pod has %d containers, want queue-proxy and the application", len(want))
	}
	want["queue-proxy"]["image"] = ourName
	// The plugin reads the OpenAPI documents in the background. Until then pods stay
	// unchanged, because failurePolicy is Ignore.
	var got *unstructured.Unstructured
	testkit.Until(t, "the policy applies", func() bool {
		got = admit(t, plugin, pod)
		return !reflect.DeepEqual(got, pod)
	})
	if got := containers(t, got); !reflect.DeepEqual(got, want) {
		t.Errorf("containers:\n%v\nwant\n%v", got, want)
	}
	unstructured.RemoveNestedField(got.Object, "spec", "containers")
	rest := pod.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, "spec", "containers")
	if !reflect.DeepEqual(got, rest) {
		t.Errorf("outside the containers:\n%v\nwant\n%v", got, rest)
	}

	unlabelled := readPod(t)
	unlabelled.SetLabels(map[string]string{"queuegate": "stable"})
	podWithoutGate := readPod(t)
	list, _, _ := unstructured.NestedSlice(podWithoutGate.Object, "spec", "containers")
	list = slices.DeleteFunc(list, func(c any) bool { return c.(map[string]any)["name"] == "queue-proxy" })
	if err := unstructured.SetNestedSlice(podWithoutGate.Object, list, "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]*unstructured.Unstructured{"another label": unlabelled, "no queue-proxy": podWithoutGate} {
		if got := admit(t, plugin, pod); !reflect.DeepEqual(got, pod) {
			t.Errorf("%s: changed to\n%v", name, got)
		}
	}
}

func TestTheBetaPolicyDiffersFromTheStableOneInItsVersionOnly(t *testing.T) {
	var texts [2]string
	for i, file := range []string{"canary.yaml", "canary-v1beta1.yaml"} {
		text, err := os.ReadFile(folder + file)
		if err != nil {
			t.Fatal(err)
		}
		_, texts[i], _ = strings.Cut(string(text), "\napiVersion: ")
	}
	stable := strings.ReplaceAll(texts[1], "admissionregistration.k8s.io/v1beta1\n", "admissionregistration.k8s.io/v1\n")
	if texts[1] == stable || texts[0] != stable {
		t.Errorf("canary-v1beta1.yaml:\n%s\ncanary.yaml:\n%s", texts[1], texts[0])
	}
}
