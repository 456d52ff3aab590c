package render

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	servingModule = "knative.dev/serving@v0.51.0"
	kyvernoModule = "github.com/kyverno/kyverno@v1.19.1"
	knativePage   = "../../docs/knative.md"
)

// table returns the first two columns of a Markdown table. The table is in the file
// page, between the lines "<!-- begin: PART -->" and "<!-- end -->", where PART is the
// value of part.
func table(t *testing.T, page, part string) (names, meanings []string) {
	t.Helper()
	_, rest, found := strings.Cut(read(t, page), "<!-- begin: "+part+" -->\n")
	rows, _, closed := strings.Cut(rest, "<!-- end -->")
	if !found || !closed {
		t.Fatalf("%s has no part %s", page, part)
	}
	for line := range strings.Lines(rows) {
		cells := strings.Split(line, " | ")
		if name, ok := strings.CutPrefix(cells[0], "| `"); ok {
			names, meanings = append(names, strings.TrimSuffix(name, "`")), append(meanings, cells[1])
		}
	}
	return names, meanings
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return s
		}
	}
	return ""
}

// environment returns the names of the environment variables that Knative sets in its
// sidecar. It finds them in the Go source of Knative, in the function that creates the
// sidecar's container. The parameter serving is the directory of Knative's module.
func environment(t *testing.T, serving string) (names []string) {
	t.Helper()
	for _, d := range parse(t, filepath.Join(serving, "pkg/reconciler/revision/resources/queue.go")).Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "makeQueueContainer" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if key, isName := pairKey(pair, ok); !isName || key != "Name" {
				return true
			}
			if name := literal(pair.Value); name == strings.ToUpper(name) && name != "" {
				names = append(names, name)
			} else if s, ok := pair.Value.(*ast.SelectorExpr); ok && s.Sel.Name == "NamespaceEnvKey" {
				names = append(names, "SYSTEM_NAMESPACE")
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}

func pairKey(pair *ast.KeyValueExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	key, ok := pair.Key.(*ast.Ident)
	if !ok {
		return "", false
	}
	return key.Name, true
}

func TestTheTableOfTheEnvironmentMatchesKnative(t *testing.T) {
	names, meanings := table(t, knativePage, "environment")
	serving := moduleDir(t, servingModule)
	if want := environment(t, serving); !slices.Equal(names, want) || len(want) < 20 {
		t.Errorf("the page has\n%q, the controller sets\n%q", names, want)
	}
	// The test reads the page of settings instead of the code. That is enough, because
	// a test of package config compares this page with the code.
	settings := read(t, "../../docs/configuration.md")
	keyPattern := regexp.MustCompile("`([a-z0-9.-]+)` in `config-([a-z]+)`")
	found := 0
	for i, name := range names {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]* \\|.*$").FindString(settings)
		if row == "" {
			t.Errorf("%s is no setting of the gate", name)
		}
		if hasNoEffect := strings.Contains(meanings[i], "no effect"); hasNoEffect != (strings.Contains(row, "without effect")) {
			t.Errorf("%s: the page says %q, the setting is %q", name, meanings[i], row)
		}
		if m := keyPattern.FindStringSubmatch(meanings[i]); m != nil {
			found++
			if !strings.Contains(read(t, filepath.Join(serving, "config/core/configmaps", m[2]+".yaml")), m[1]) {
				t.Errorf("%s: config-%s has no %s", name, m[2], m[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d keys of Knative's configuration", found)
	}
}

func TestTheDocumentedAnnotationsMatchKnative(t *testing.T) {
	serving := moduleDir(t, servingModule)
	var want []string
	ast.Inspect(parse(t, filepath.Join(serving, "pkg/apis/serving/register.go")), func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "QueueSidecar") || !strings.HasSuffix(v.Names[0].Name, "AnnotationKey") {
			return true
		}
		// "queue.sidecar." + GroupName + "/..."
		outer := v.Values[0].(*ast.BinaryExpr)
		want = append(want, literal(outer.X.(*ast.BinaryExpr).X)+"serving.knative.dev"+literal(outer.Y))
		return true
	})
	slices.Sort(want)
	if names, _ := table(t, knativePage, "annotations"); !slices.Equal(names, want) || len(want) < 7 {
		t.Errorf("the page has\n%q, Knative has\n%q", names, want)
	}
}

// All manifests use the tag dev for the gate's images. With a tag other than latest,
// the kubelet uses the image on the node. Otherwise it would contact a registry at each
// start of a pod, and so at each cold start.
func TestEveryManifestUsesTheSameSidecarName(t *testing.T) {
	mention := regexp.MustCompile(`registry\.example/queuegate\b[^\s'",)` + "`" + `]*`)
	found := 0
	for _, pattern := range []string{"knative/*.yaml", "kubernetes/*.yaml", "helm/queuegate/values.yaml"} {
		files, err := filepath.Glob(configDir + pattern)
		if err != nil || files == nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			for _, name := range mention.FindAllString(read(t, file), -1) {
				found++
				if name != "registry.example/queuegate:dev" && name != "registry.example/queuegate-demo:dev" {
					t.Errorf("%s: %s", file, name)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d names", found)
	}
}

// The test decodes the canary and the network policy strictly. It skips the other files
// of the folder, because they are patches or resources of Knative.
func TestTheManifestsOfTheKnativeFolderAreValid(t *testing.T) {
	for file, want := range map[string][]string{
		"canary.yaml":         {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
		"canary-v1beta1.yaml": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
		"networkpolicy.yaml":  {"NetworkPolicy"},
	} {
		if got := kinds(objects(t, []byte(read(t, configDir+"knative/"+file)))); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
}

// The policy for Kyverno differs from the policy for the API server in three points. It
// contains the match rules that are in the API server's binding. It lacks the field
// reinvocationPolicy. It disables the rules for Deployments that Kyverno would derive
// from the rules for pods. This test only compares the files; test/kyverno applies the
// policy.
func TestThePolicyForKyvernoIsValidAndEqualsThePolicyForTheAPIServer(t *testing.T) {
	kyverno := readYAML(t, configDir+"knative/canary-kyverno.yaml")
	s := definition(t, kyvernoModule, "config/crds/policies.kyverno.io/policies.kyverno.io_mutatingpolicies.yaml", "v1")
	for _, p := range s.problems("", kyverno) {
		t.Error(p)
	}
	all := objects(t, []byte(read(t, configDir+"knative/canary.yaml")))
	spec, _ := kyverno["spec"].(map[string]any)
	want := maps.Clone(find(t, all, "MutatingAdmissionPolicy").Object["spec"].(map[string]any))
	binding := find(t, all, "MutatingAdmissionPolicyBinding").Object["spec"].(map[string]any)
	match := maps.Clone(want["matchConstraints"].(map[string]any))
	maps.Copy(match, binding["matchResources"].(map[string]any))
	want["matchConstraints"] = match
	// Kyverno uses reinvocationPolicy only if it generates a policy for the API server.
	delete(want, "reinvocationPolicy")
	want["autogen"] = map[string]any{"podControllers": map[string]any{"controllers": []any{}}}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("canary-kyverno.yaml has\n%v, want\n%v", spec, want)
	}
}
