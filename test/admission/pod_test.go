package admission

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	netcfg "knative.dev/networking/pkg/config"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/logging"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/reconciler/revision/config"
	"knative.dev/serving/pkg/reconciler/revision/resources"
	"sigs.k8s.io/yaml"

	"github.com/queuegate/queuegate/internal/testkit"
)

const recordedPod = "testdata/pod.json"

// knativeConfig returns the configuration of a default installation.
func knativeConfig(t *testing.T) *config.Config {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "knative.dev/serving").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config/core/configmaps/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no ConfigMaps in %s: %v", dir, err)
	}
	// In Knative's repository, config-network is a symbolic link, which is not part of
	// the Go module. So use an empty config map, which means the defaults.
	maps := []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-serving", Name: netcfg.ConfigMapName}}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := &corev1.ConfigMap{}
		if err := yaml.Unmarshal(text, m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		maps = append(maps, m)
	}
	store := config.NewStore(logging.FromContext(t.Context()))
	store.WatchConfigs(configmap.NewStaticWatcher(maps...))
	return store.Load()
}

// The test compares testdata/pod.json with the pod template of the Deployment that
// Knative's controller creates.
func TestTheRecordedPodIsThePodThatKnativeCreates(t *testing.T) {
	t.Setenv("SYSTEM_NAMESPACE", "knative-serving")
	revision := &servingv1.Revision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-00001", UID: "1", Labels: map[string]string{
			serving.ServiceLabelKey: "web", serving.ConfigurationLabelKey: "web", "queuegate": "canary",
		}},
		Spec: servingv1.RevisionSpec{PodSpec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "registry.example/hello:1"}},
		}},
	}
	knative := knativeConfig(t)
	revision.SetDefaults(config.ToContext(t.Context(), knative))
	revision.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: revision.Spec.Containers[0].Name, ImageDigest: "registry.example/hello:1"}}
	deployment, err := resources.MakeDeployment(revision, knative)
	if err != nil {
		t.Fatal(err)
	}
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: deployment.Spec.Template.ObjectMeta,
		Spec:       deployment.Spec.Template.Spec,
	}
	pod.Namespace, pod.Name = "shop", "web-00001-abc"
	text, err := json.MarshalIndent(pod, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *testkit.Update {
		if err := os.WriteFile(recordedPod, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if recorded, err := os.ReadFile(recordedPod); err != nil || !bytes.Equal(recorded, text) {
		t.Errorf("%s is not Knative's pod (go test -update): %v", recordedPod, err)
	}
}

// readPod returns the recorded pod, which has the canary's label and a container
// queue-proxy.
func readPod(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(recordedPod)
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// containers returns the pod's containers by name.
func containers(t *testing.T, pod *unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]map[string]any{}
	for _, c := range list {
		c := c.(map[string]any)
		byName[c["name"].(string)] = c
	}
	return byName
}
