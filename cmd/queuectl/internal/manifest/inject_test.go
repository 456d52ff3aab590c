package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var options = Options{Image: "registry.example/queuegate", Concurrency: 10, Services: true}

// corpus returns testdata/*.yaml and *.json, and copies with other line
// endings.
func corpus(t *testing.T) (files []File) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.*")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		f := File{name, string(text)}
		files = append(files, f)
		if !strings.Contains(f.Text, "\r") {
			files = append(files,
				File{name + " with CRLF", strings.ReplaceAll(f.Text, "\n", "\r\n")},
				File{name + " without a last line end", strings.TrimRight(f.Text, "\n")},
				File{name + " twice", f.Text + "\n---\n" + f.Text})
		}
	}
	return files
}

func one(f File, o Options) (string, []Note) {
	files, notes := Inject([]File{f}, o)
	return files[0].Text, notes
}

func TestUninjectRestoresTheInputOfInjectByteForByte(t *testing.T) {
	changed := 0
	for _, f := range corpus(t) {
		injected, notes := one(f, options)
		if injected != f.Text {
			changed++
		}
		for _, n := range notes {
			if strings.Contains(n.Text, "could not be taken back") || strings.Contains(n.Text, "two changes") {
				t.Errorf("%s: %s", f.Name, n)
			}
		}
		back, notes := Uninject([]File{{f.Name, injected}})
		if back[0].Text != f.Text || len(notes) > 0 && !strings.HasPrefix(f.Name, "broken") {
			t.Errorf("%s: %q\ngot:\n%s\nwant:\n%s", f.Name, notes, back[0].Text, f.Text)
		}
	}
	if changed < 100 {
		t.Errorf("only %d files were changed", changed)
	}
}

func TestInjectingAgainChangesNothing(t *testing.T) {
	for _, f := range corpus(t) {
		injected, _ := one(f, options)
		if second, _ := one(File{f.Name, injected}, options); second != injected {
			t.Errorf("%s: got:\n%s\nwant:\n%s", f.Name, second, injected)
		}
		other := Options{Image: "other", Services: true}
		want, _ := one(f, other)
		if got, _ := one(File{f.Name, injected}, other); got != want {
			t.Errorf("%s: injecting with other options is not what injecting with them at first is", f.Name)
		}
	}
}

func decode(t *testing.T, f File) (documents []any) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(f.Text)); ; {
		var d any
		err := decoder.Decode(&d)
		if err != nil && err.Error() == "EOF" {
			return documents
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", f.Name, err, f.Text)
		}
		documents = append(documents, d)
	}
}

func eachMap(v any, do func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		do(v)
		for _, child := range v {
			eachMap(child, do)
		}
	case []any:
		for _, child := range v {
			eachMap(child, do)
		}
	}
}

// stripped returns a document without the parts that Inject may change.
func stripped(t *testing.T, f File) []any {
	documents := decode(t, f)
	eachMap(documents, func(m map[string]any) {
		if annotations, ok := m["annotations"].(map[string]any); ok {
			delete(annotations, Annotation)
		}
		if annotations, ok := m["annotations"]; ok && (annotations == nil || reflect.DeepEqual(annotations, map[string]any{})) {
			delete(m, "annotations")
		}
		list, _ := m["initContainers"].([]any)
		list = slices.DeleteFunc(list, func(c any) bool { return c.(map[string]any)["name"] == GateName })
		if m["initContainers"] = list; len(list) == 0 {
			delete(m, "initContainers")
		}
		for _, key := range []string{"terminationGracePeriodSeconds", "readinessProbe", "livenessProbe", "startupProbe", "lifecycle", "targetPort"} {
			delete(m, key)
		}
	})
	return documents
}

func TestInjectChangesOnlyTheExpectedParts(t *testing.T) {
	for _, f := range corpus(t) {
		if strings.HasPrefix(f.Name, "broken") {
			continue
		}
		injected, _ := one(f, options)
		got, want := stripped(t, File{f.Name, injected}), stripped(t, f)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v\n%s", f.Name, got, want, injected)
		}
	}
}

// podSpecs returns the pod specs with a gate, and their gates.
func podSpecs(t *testing.T, f File) (specs, gates []map[string]any) {
	eachMap(decode(t, f), func(m map[string]any) {
		list, _ := m["initContainers"].([]any)
		for _, c := range list {
			if c := c.(map[string]any); c["name"] == GateName {
				specs, gates = append(specs, m), append(gates, c)
			}
		}
	})
	return specs, gates
}

func TestInjectedGatesAreConsistentAndValid(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "queue")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/queue")
	build.Dir = "../../../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the gate: %v\n%s", err, text)
	}
	checked := map[string]bool{}
	for _, f := range corpus(t) {
		injected, _ := one(f, options)
		if strings.HasPrefix(f.Name, "broken") || strings.Contains(f.Name, " ") {
			continue
		}
		specs, gates := podSpecs(t, File{f.Name, injected})
		for i, spec := range specs {
			var env []string
			variables, ok := gates[i]["env"].([]any)
			if !ok {
				continue // not injected
			}
			for _, v := range variables {
				v := v.(map[string]any)
				value, ok := v["value"].(string)
				if !ok && v["valueFrom"] == nil {
					t.Errorf("%s: %v is no string", f.Name, v)
				}
				env = append(env, fmt.Sprintf("%v=%s", v["name"], value))
			}
			if text, err := exec.Command("env", append(append([]string{"-i"}, env...), binary, "--check")...).CombinedOutput(); err != nil || strings.Contains(string(text), "warning") {
				t.Errorf("%s: %v\n%s\n%q", f.Name, err, text, env)
			}
			checked[f.Name] = true
			checkRewritten(t, f.Name, spec, env)
		}
	}
	if len(checked) < 25 {
		t.Errorf("only %d files have a gate", len(checked))
	}
}

// checkRewritten checks the liveness and startup probes. A probe that was rewritten goes
// to a path below /app-health/ of the gate. The gate must know each of these paths
// (KUBE_APP_PROBERS), and each path that the gate knows must be used by a probe. Each
// probe must have exactly one handler.
func checkRewritten(t *testing.T, name string, spec map[string]any, env []string) {
	t.Helper()
	probers := map[string]any{}
	for _, v := range env {
		if text, ok := strings.CutPrefix(v, "KUBE_APP_PROBERS="); ok {
			if err := json.Unmarshal([]byte(text), &probers); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	used := 0
	for _, c := range spec["containers"].([]any) {
		for _, kind := range []string{"livenessProbe", "startupProbe"} {
			probe, _ := c.(map[string]any)[kind].(map[string]any)
			handlers := 0
			for _, handler := range []string{"httpGet", "tcpSocket", "grpc", "exec"} {
				if probe[handler] != nil {
					handlers++
				}
			}
			if probe != nil && handlers != 1 {
				t.Errorf("%s: %s has %d handlers", name, kind, handlers)
			}
			get, _ := probe["httpGet"].(map[string]any)
			if path, _ := get["path"].(string); strings.HasPrefix(path, "/app-health/") {
				used++
				if probers[path] == nil || len(get) != 2 {
					t.Errorf("%s: %v goes to what is not known: %v", name, get, probers)
				}
			}
		}
	}
	if used != len(probers) {
		t.Errorf("%s: %d of %d probers are used", name, used, len(probers))
	}
}
