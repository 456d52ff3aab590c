package manifest

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

func TestLiveSettingsMountTheAnnotationsOfThePod(t *testing.T) {
	live := options
	live.LiveSettings = true
	mounted := 0
	for _, f := range corpus(t) {
		injected, notes := one(f, live)
		for _, n := range notes {
			if strings.Contains(n.Text, "could not be taken back") || strings.Contains(n.Text, "two changes") {
				t.Errorf("%s: %s", f.Name, n)
			}
		}
		back, _ := Uninject([]File{{f.Name, injected}})
		if back[0].Text != f.Text {
			t.Errorf("%s: got:\n%s\nwant:\n%s", f.Name, back[0].Text, f.Text)
		}
		if second, _ := one(File{f.Name, injected}, live); second != injected {
			t.Errorf("%s: injecting again gives:\n%s", f.Name, second)
		}
		if strings.HasPrefix(f.Name, "broken") {
			continue
		}
		for _, text := range objectsOf(t, File{f.Name, injected}) {
			spec, err := strictly(text)
			if err != nil {
				continue // the corpus includes objects that Kubernetes would reject
			}
			for _, c := range spec.InitContainers {
				if c.Image == live.Image {
					mounted++
					checkPodInfo(t, f.Name, &spec, &c)
				}
			}
		}
	}
	if mounted < 60 {
		t.Errorf("only %d gates", mounted)
	}
}

// checkPodInfo fails unless c mounts one volume with the annotations of its pod.
func checkPodInfo(t *testing.T, name string, spec *core.PodSpec, c *core.Container) {
	t.Helper()
	if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/etc/podinfo" || !c.VolumeMounts[0].ReadOnly {
		t.Errorf("%s: mounts %+v", name, c.VolumeMounts)
		return
	}
	found := 0
	for _, v := range spec.Volumes {
		if v.Name == c.VolumeMounts[0].Name {
			found++
			if v.DownwardAPI == nil || len(v.DownwardAPI.Items) != 1 || v.DownwardAPI.Items[0].Path != "annotations" || v.DownwardAPI.Items[0].FieldRef.FieldPath != "metadata.annotations" {
				t.Errorf("%s: volume %+v", name, v)
			}
		}
	}
	if found != 1 {
		t.Errorf("%s: %d volumes are called %s", name, found, c.VolumeMounts[0].Name)
	}
}

func TestInjectKeepsAnExistingVolumeWithTheNameOfTheGatesVolume(t *testing.T) {
	const pod = "kind: Pod\nmetadata: {name: web}\nspec:\n  volumes:\n  - name: queuegate-podinfo # of somebody\n    emptyDir: {}\n  containers:\n  - name: web\n    ports: [{containerPort: 80}]\n"
	injected, notes := one(File{"pod.yaml", pod}, Options{Image: "gate:1", LiveSettings: true})
	if len(notes) > 0 || !strings.Contains(injected, "  volumes:\n  - name: queuegate-podinfo-x\n    downwardAPI:\n") || !strings.Contains(injected, "  - name: queuegate-podinfo # of somebody\n    emptyDir: {}\n") {
		t.Errorf("%v\n%s", notes, injected)
	}
}

func TestManifestsAreStillValidAfterQueuectlSet(t *testing.T) {
	settings := []Setting{{Flag: "concurrency", Value: "10"}, {Flag: "queue-fair-by", Value: `header:"X"`}}
	annotated := 0
	for _, f := range corpus(t) {
		if strings.HasPrefix(f.Name, "broken") {
			continue
		}
		set, notes := Set([]File{f}, settings)
		for _, n := range notes {
			if !n.Unchanged {
				t.Errorf("%s: %s", f.Name, n)
			}
		}
		for i, text := range objectsOf(t, set[0]) {
			_, before := strictly(objectsOf(t, f)[i])
			if _, after := strictly(text); before == nil && after != nil {
				t.Errorf("%s: %v\n%s", f.Name, after, set[0].Text)
			}
			if strings.Contains(string(text), `"queuegate.dev/concurrency":"10"`) {
				annotated++
			}
		}
		if again, _ := Set(set, settings); again[0].Text != set[0].Text {
			t.Errorf("%s: setting again gives:\n%s", f.Name, again[0].Text)
		}
	}
	if annotated < 60 {
		t.Errorf("only %d objects", annotated)
	}
}
