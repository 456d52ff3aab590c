package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// renders returns sets of manifests, each with one Deployment.
func renders(t *testing.T) map[string][]object {
	t.Helper()
	return map[string][]object{
		"kubernetes":                   kustomize(t, "kubernetes"),
		"overlays/hpa":                 kustomize(t, "overlays/hpa"),
		"overlays/keda":                kustomize(t, "overlays/keda"),
		"overlays/prometheus-operator": kustomize(t, "overlays/prometheus-operator"),
		"chart":                        chart(t, `{prometheusOperator: {enabled: true}}`),
	}
}

func podOf(t *testing.T, all []object) *corev1.PodTemplateSpec {
	t.Helper()
	return &find(t, all, "Deployment").typed.(*appsv1.Deployment).Spec.Template
}

func gateOf(t *testing.T, pod *corev1.PodTemplateSpec) corev1.Container {
	t.Helper()
	if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Name != "queuegate" {
		t.Fatalf("init containers %v", pod.Spec.InitContainers)
	}
	return pod.Spec.InitContainers[0]
}

// The test uses the API server's check for a namespace labelled
// pod-security.kubernetes.io/enforce=restricted.
func TestPodsPassTheRestrictedPolicy(t *testing.T) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for name, all := range renders(t) {
		pod := podOf(t, all)
		for _, result := range judge.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: the containers have a token for the API", name)
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: %s can write to its root file system", name, c.Name)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: %s has no requests or no limit of memory", name, c.Name)
			}
			if tag := c.Image[strings.LastIndex(c.Image, "/"):]; !strings.Contains(tag, ":") || strings.HasSuffix(tag, ":latest") {
				t.Errorf("%s: %s: each start asks the registry for %s", name, c.Name, c.Image)
			}
		}
	}
}

func TestTheGateIsASidecarThatDrainsFirst(t *testing.T) {
	for name, all := range renders(t) {
		pod := podOf(t, all)
		gate := gateOf(t, pod)
		if gate.RestartPolicy == nil || *gate.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: the gate is no sidecar", name)
		}
		if user := gate.SecurityContext.RunAsUser; user == nil || *user == 0 {
			t.Errorf("%s: the gate has no numeric user", name)
		}
		if hook := gate.Lifecycle.PreStop.Exec; hook == nil || !slices.Equal(hook.Command, []string{"queue", "drain"}) {
			t.Errorf("%s: the gate's preStop hook is %v", name, hook)
		}
		probe := gate.ReadinessProbe.HTTPGet
		if probe.Port.IntValue() != 8012 || probe.HTTPHeaders[0] != (corev1.HTTPHeader{Name: "K-Network-Probe", Value: "queue"}) {
			t.Errorf("%s: readiness does not go through the gate: %v", name, probe)
		}
		// The gate responds within 0.9 s, but a busy kubelet may read the response later,
		// so the timeout is longer.
		for kind, p := range map[string]*corev1.Probe{"startup": gate.StartupProbe, "liveness": gate.LivenessProbe, "readiness": gate.ReadinessProbe} {
			if p.TimeoutSeconds < 5 || p.FailureThreshold == 1 {
				t.Errorf("%s: the %s probe fails on a busy node: timeoutSeconds %d, failureThreshold %d", name, kind, p.TimeoutSeconds, p.FailureThreshold)
			}
		}
		application := pod.Spec.Containers[0]
		if application.ReadinessProbe != nil {
			t.Errorf("%s: the kubelet probes the application itself", name)
		}
		// 8022 is a port of the gate's container. The hook needs the number, because
		// Kubernetes looks up a port name only in the application's own container.
		if hook := application.Lifecycle.PreStop.HTTPGet; hook.Path != "/wait-for-drain?begins-within=10s" || hook.Port.IntValue() != 8022 {
			t.Errorf("%s: the application's preStop hook is %v", name, hook)
		}
	}
}

func TestSelectorsFindThePods(t *testing.T) {
	for name, all := range renders(t) {
		pod := podOf(t, all)
		typed := func(kind string) any { return find(t, all, kind).typed }
		selectors := map[string]*metav1.LabelSelector{
			"Deployment":          typed("Deployment").(*appsv1.Deployment).Spec.Selector,
			"PodDisruptionBudget": typed("PodDisruptionBudget").(*policyv1.PodDisruptionBudget).Spec.Selector,
			"NetworkPolicy":       &typed("NetworkPolicy").(*networkingv1.NetworkPolicy).Spec.PodSelector,
			"Service":             {MatchLabels: typed("Service").(*corev1.Service).Spec.Selector},
		}
		for kind, s := range selectors {
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s: %s: %v does not select %v: %v", name, kind, selector, pod.Labels, err)
			}
		}
		service := typed("Service").(*corev1.Service)
		if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].TargetPort.IntValue() != 8012 {
			t.Errorf("%s: the Service leads to %v", name, service.Spec.Ports)
		}
	}
}

func TestOnlyTheTrafficAndMetricsPortsAreOpen(t *testing.T) {
	for name, all := range renders(t) {
		rules := find(t, all, "NetworkPolicy").typed.(*networkingv1.NetworkPolicy).Spec
		if !slices.Equal(rules.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || len(rules.Ingress) != 2 {
			t.Fatalf("%s: %+v", name, rules)
		}
		traffic, figures := rules.Ingress[0], rules.Ingress[1]
		if len(traffic.From) != 0 || len(traffic.Ports) != 1 || traffic.Ports[0].Port.IntValue() != 8012 {
			t.Errorf("%s: traffic: %+v", name, traffic)
		}
		if len(figures.From) != 1 || figures.From[0].NamespaceSelector == nil || figures.From[0].PodSelector == nil ||
			len(figures.Ports) != 1 || figures.Ports[0].Port.IntValue() != 9091 {
			t.Errorf("%s: figures: %+v", name, figures)
		}
	}
}
