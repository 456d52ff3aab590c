package manifest

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write testdata/golden/plain.yaml")

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnInjectedManifestEqualsTheGoldenFile(t *testing.T) {
	const golden = "testdata/golden/plain.yaml"
	got, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, golden); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestObjectsThatCannotBeRewrittenAreReported(t *testing.T) {
	for _, c := range []struct {
		file  string
		wants []string
	}{
		{"plain.yaml", []string{"service/web: port 6060 leads to 6060, not to port 8080 of the application, and is unchanged"}},
		{"indentless.yaml", []string{"statefulset/db: container log: its readinessProbe is kept by the kubelet: it is an exec probe",
			"statefulset/db: container log: its livenessProbe is unchanged: it is an exec probe", "statefulset/db: terminationGracePeriodSeconds is 10"}},
		{"noport.yaml", []string{"pod/noport: left unchanged: container x has no port: set one with --user-port"}},
		{"already.yaml", []string{"pod/already: left unchanged: it already has a gate"}},
		{"crd.yaml", []string{"service/knative: left unchanged: the pods of this object get their queue-proxy from Knative"}},
		{"broken.yaml", []string{"broken.yaml: left unchanged: this is not YAML: "}},
		{"aliascontainers.yaml", []string{"pod/a: left unchanged: containers: is used elsewhere through the anchor &c", "pod/b: left unchanged: its containers are an alias"}},
		{"anchors.yaml", []string{"pod/anchors: container a: its readinessProbe is kept by the kubelet: it: is used elsewhere through the anchor &probe"}},
		{"mergedprobe.yaml", []string{"container merged: its readinessProbe is kept by the kubelet: it comes from a merge key", "its livenessProbe is unchanged: it comes from a merge key"}},
		{"lifecycle.yaml", []string{"pod/own-prestop: container a: its preStop hook is kept"}},
		{"hostprobe.yaml", []string{"its readinessProbe is kept by the kubelet: it goes to the host example.com", `the container has no port called "nameless"`, "hostNetwork"}},
	} {
		text := read(t, "testdata/"+c.file)
		_, notes := Inject([]File{{c.file, text}}, options)
		for _, want := range c.wants {
			if !slices.ContainsFunc(notes, func(n Note) bool { return strings.Contains(n.String(), want) }) {
				t.Errorf("%s: nothing says %q: %v", c.file, want, notes)
			}
		}
		if len(notes) != len(c.wants) && c.file != "mergedprobe.yaml" && c.file != "aliascontainers.yaml" {
			t.Errorf("%s: %d notes, want %d: %v", c.file, len(notes), len(c.wants), notes)
		}
	}
}

func TestOptionsChooseContainerAndPort(t *testing.T) {
	for _, c := range []struct {
		file string
		o    Options
		want string
	}{
		{"noport.yaml", Options{UserPort: 3000}, `value: "3000"`},
		{"multi.yaml", Options{Container: "main"}, `value: "8080"`},
		{"multi.yaml", Options{Container: "sidecar", UserPort: 7000}, `value: "7000"`},
	} {
		c.o.Image = "x"
		got, notes := one(File{c.file, read(t, "testdata/"+c.file)}, c.o)
		if !strings.Contains(got, "name: USER_PORT\n              "+c.want) && !strings.Contains(got, "name: USER_PORT\n          "+c.want) &&
			!strings.Contains(strings.Join(strings.Fields(got), " "), "name: USER_PORT "+c.want) {
			t.Errorf("%s: %v\n%s", c.file, notes, got)
		}
	}
	if got, notes := one(File{"multi.yaml", read(t, "testdata/multi.yaml")}, Options{Image: "x", Container: "unknown"}); len(notes) != 1 || !notes[0].Unchanged || strings.Contains(got, GateName) {
		t.Errorf("%v\n%s", notes, got)
	}
}

func TestUninjectWorksAfterEditsElsewhere(t *testing.T) {
	for _, c := range []struct{ file, old, new string }{
		{"plain.yaml", "image: registry.example/web:1", "image: registry.example/web:22222"},
		{"plain.yaml", "# The shop's web server.\n", "# One.\n# Two.\n# Three.\n"},
		{"plain.yaml", "          resources: {}\n", ""},
		{"comments.yaml", "# end of spec\n", "# end of spec\n# and more\n"},
		{"jsonlist.json", `"name":"b","ports"`, `"name":"b","image":"new","ports"`},
	} {
		text := read(t, "testdata/"+c.file)
		injected, _ := one(File{c.file, text}, options)
		edited := strings.Replace(injected, c.old, c.new, 1)
		if edited == injected {
			t.Fatalf("%s: %q is not there", c.file, c.old)
		}
		back, notes := Uninject([]File{{c.file, edited}})
		if want := strings.Replace(text, c.old, c.new, 1); back[0].Text != want || len(notes) > 0 {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", c.file, notes, back[0].Text, want)
		}
	}
}

func TestAGateWithoutAReadableRecordIsNotChanged(t *testing.T) {
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	edited := strings.Replace(injected, Annotation+": '{", Annotation+": 'x{", 1)
	back, notes := Uninject([]File{{"plain.yaml", edited}})
	if len(notes) != 1 || !notes[0].Unchanged || !notes[0].Failed || !strings.Contains(back[0].Text, GateName) {
		t.Errorf("%v", notes)
	}
	if second, notes := one(File{"plain.yaml", edited}, options); len(notes) == 0 || !notes[0].Failed || !strings.Contains(second, Annotation+": 'x{") {
		t.Errorf("injected although uninject failed: %v", notes)
	}
}

func TestTheInjectedGateEqualsTheGateOfTheManifestsInConfig(t *testing.T) {
	_, gates := podSpecs(t, File{"deployment.yaml", read(t, "../../../../config/kubernetes/deployment.yaml")})
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	_, ownGates := podSpecs(t, File{"plain.yaml", injected})
	if len(gates) != 1 || len(ownGates) != 1 {
		t.Fatalf("%d and %d gates", len(gates), len(ownGates))
	}
	for key, want := range gates[0] {
		switch key {
		case "env", "securityContext", "image": // may differ
		default:
			if got := ownGates[0][key]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, in config/kubernetes %v", key, got, want)
			}
		}
	}
	names := func(gate map[string]any) (all []string) {
		for _, v := range gate["env"].([]any) {
			all = append(all, v.(map[string]any)["name"].(string))
		}
		return all
	}
	for _, name := range names(gates[0]) {
		if name != "REVISION_TIMEOUT_SECONDS" && !slices.Contains(names(ownGates[0]), name) {
			t.Errorf("%s is set in config/kubernetes alone", name)
		}
	}
}

// FuzzUninject searches for a manifest that uninject does not restore.
func FuzzUninject(f *testing.F) {
	for _, name := range []string{"plain.yaml", "indentless.yaml", "flow.yaml", "jsonlist.json", "comments.yaml", "services.yaml", "dashline.yaml", "nullannotations.yaml"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, Annotation) {
			t.Skip("already injected")
		}
		injected, notes := one(File{"x", text}, options)
		if injected == text {
			return
		}
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(injected), &node); err != nil {
			t.Fatalf("%v: %q", err, injected)
		}
		if back, _ := Uninject([]File{{"x", injected}}); back[0].Text != text {
			t.Fatalf("%v: got %q, want %q", notes, back[0].Text, text)
		}
	})
}
