package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// No field may be unknown or have a wrong type.
func TestInjectedObjectsAreValidForKubernetes(t *testing.T) {
	checked, gates := 0, 0
	for _, f := range corpus(t) {
		if strings.HasPrefix(f.Name, "broken") || strings.Contains(f.Name, " ") {
			continue
		}
		injected, _ := one(f, options)
		before, after := objectsOf(t, f), objectsOf(t, File{f.Name, injected})
		if len(before) != len(after) {
			t.Fatalf("%s: %d objects, then %d", f.Name, len(before), len(after))
		}
		for i := range before {
			if _, err := strictly(before[i]); err != nil {
				continue // the corpus has objects that Kubernetes would reject
			}
			checked++
			spec, err := strictly(after[i])
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
				continue
			}
			for _, c := range spec.InitContainers {
				if c.Image != options.Image {
					continue
				}
				gates++
				if c.Name != GateName || c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways || c.Lifecycle.PreStop.Exec == nil ||
					c.ReadinessProbe.HTTPGet.Port.IntValue() == 0 || *c.SecurityContext.RunAsUser == 0 || c.Resources.Limits.Memory().Value() != 128<<20 {
					t.Errorf("%s: got %+v", f.Name, c)
				}
			}
		}
	}
	if checked < 25 || gates < 15 {
		t.Errorf("only %d objects and %d gates", checked, gates)
	}
}

// objectsOf returns the objects of a file in JSON, including those in Lists.
func objectsOf(t *testing.T, f File) (all [][]byte) {
	var add func(v any)
	add = func(v any) {
		m, _ := v.(map[string]any)
		if list, ok := m["items"].([]any); ok {
			for _, item := range list {
				add(item)
			}
		} else if text, err := json.Marshal(v); err == nil && m != nil {
			all = append(all, text)
		}
	}
	for _, d := range decode(t, f) {
		add(d)
	}
	return all
}

// strictly decodes a Kubernetes object and returns its pod spec. It returns an error if
// the object has a field that its type in the Kubernetes API lacks. For a kind that is
// not in the table, and for objects of Knative, it returns an empty spec and no error.
func strictly(text []byte) (core.PodSpec, error) {
	var head struct{ Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return core.PodSpec{}, err
	}
	var pod core.Pod
	var deployment apps.Deployment
	var stateful apps.StatefulSet
	var replica apps.ReplicaSet
	var daemon apps.DaemonSet
	var job batch.Job
	var cron batch.CronJob
	var service core.Service
	for _, kind := range []struct {
		name string
		into any
		spec *core.PodSpec
	}{
		{"Pod", &pod, &pod.Spec}, {"Deployment", &deployment, &deployment.Spec.Template.Spec}, {"StatefulSet", &stateful, &stateful.Spec.Template.Spec},
		{"ReplicaSet", &replica, &replica.Spec.Template.Spec}, {"DaemonSet", &daemon, &daemon.Spec.Template.Spec}, {"Job", &job, &job.Spec.Template.Spec},
		{"CronJob", &cron, &cron.Spec.JobTemplate.Spec.Template.Spec}, {"Service", &service, &core.PodSpec{}},
	} {
		if kind.name == head.Kind && !bytes.Contains(text, []byte("knative")) {
			err := yaml.UnmarshalStrict(text, kind.into)
			return *kind.spec, err
		}
	}
	return core.PodSpec{}, nil
}
