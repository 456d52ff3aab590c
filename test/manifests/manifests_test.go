package manifests

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	configDir   = "../../config"
	settingsDoc = "../../docs/configuration.md"
	metricsDoc  = "../../docs/metrics.md"
	gateImage   = "registry.example/queuegate:dev"
)

type file struct {
	name      string // path below config/
	text      string
	documents []any
}

func files(t *testing.T) (all []file) {
	t.Helper()
	err := filepath.WalkDir(configDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "helm" {
				return fs.SkipDir // test/render renders the chart
			}
			return nil
		}
		name, err := filepath.Rel(configDir, path)
		if err != nil {
			return err
		}
		f := file{name: name, text: read(t, path)}
		if filepath.Ext(path) != ".md" {
			f.documents = parse(t, name, f.text)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parse decodes all documents of a YAML or JSON text. It fails the test if an object has
// a repeated key.
func parse(t *testing.T, name, text string) (all []any) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var d any
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
}

// walk calls f for each object in node.
func walk(node any, f func(object map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		f(node)
		for _, key := range slices.Sorted(maps.Keys(node)) {
			walk(node[key], f)
		}
	case []any:
		for _, child := range node {
			walk(child, f)
		}
	}
}

// firstColumn returns the rows of a document's tables, by the name in the first column.
func firstColumn(t *testing.T, path string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(read(t, path)) {
		cells := strings.Split(line, " | ")
		if name, ok := strings.CutPrefix(cells[0], "| `"); ok {
			rows[strings.TrimSuffix(name, "`")] = cells
		}
	}
	if len(rows) < 30 {
		t.Fatalf("%s: only %d rows", path, len(rows))
	}
	return rows
}

func TestTheREADMEOfTheManifestsListsEveryFile(t *testing.T) {
	link := regexp.MustCompile(`\]\(([a-z][a-z0-9/.-]*)\)`)
	var listed, there []string
	for _, f := range files(t) {
		if f.name != "README.md" {
			there = append(there, f.name)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(f.text, -1) {
			listed = append(listed, m[1])
		}
	}
	listed = slices.DeleteFunc(listed, func(name string) bool { return name == "helm/queuegate" })
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("README.md lists\n%q, there are\n%q", listed, there)
	}
}

func TestEverySettingNamedInAManifestExists(t *testing.T) {
	settings := firstColumn(t, settingsDoc)
	variable := regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
	found := 0
	for _, f := range files(t) {
		for _, name := range variable.FindAllString(f.text, -1) {
			found++
			if settings[name] == nil {
				t.Errorf("%s: %s is no setting", f.name, name)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d settings are named", found)
	}
}

// gates returns all containers with the gate.
func gates(t *testing.T) (all []map[string]any) {
	t.Helper()
	for _, f := range files(t) {
		for _, d := range f.documents {
			walk(d, func(o map[string]any) {
				if o["image"] == gateImage {
					all = append(all, o)
				}
			})
		}
	}
	if len(all) == 0 {
		t.Fatal("no container runs the gate")
	}
	return all
}

func TestTheGateAcceptsTheEnvironmentInEveryManifest(t *testing.T) {
	settings := firstColumn(t, settingsDoc)
	binary := filepath.Join(t.TempDir(), "queue")
	if text, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/queue").CombinedOutput(); err != nil {
		t.Fatalf("building cmd/queue: %v\n%s", err, text)
	}
	for _, container := range gates(t) {
		var environment []string
		variables, _ := container["env"].([]any)
		for _, v := range variables {
			v := v.(map[string]any)
			name := v["name"].(string)
			if settings[name] == nil {
				t.Errorf("%s is no setting", name)
			}
			value, literal := v["value"].(string)
			if _, from := v["valueFrom"]; literal == from {
				t.Errorf("%s: neither a string nor from elsewhere, or both", name)
			} else if from {
				value = "from-elsewhere"
			}
			environment = append(environment, name+"="+value)
		}
		if len(environment) < 5 {
			t.Errorf("%v: only %q", container["name"], environment)
		}
		check := exec.Command(binary, "--check")
		check.Env = environment
		text, err := check.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", environment, err, text)
		}
		for _, variable := range environment {
			name, _, _ := strings.Cut(variable, "=")
			if !regexp.MustCompile(`(?m)^` + name + `=.*\(source: environment\)$`).Match(text) {
				t.Errorf("--check does not take %s from the environment:\n%s", name, text)
			}
		}
	}
}
