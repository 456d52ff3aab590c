package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	kubectl "sigs.k8s.io/yaml"
)

// A file of a few hundred bytes can expand to billions of values.
func TestAFileWithExcessiveAliasExpansionIsNotChanged(t *testing.T) {
	merges, aliases := "x0: &x0 {a: b}\n", "x0: &x0 [a, b, c, d, e, f, g, h]\n"
	for i := range 9 {
		from := strings.Repeat(fmt.Sprintf("*x%d, ", i), 10)
		merges += fmt.Sprintf("x%d: &x%d {<<: [%s]}\n", i+1, i+1, from)
		aliases += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, from)
	}
	chain := "x0: &x0 [a]\n"
	for i := range 1000 {
		chain += fmt.Sprintf("x%d: &x%d [*x%d]\n", i+1, i+1, i)
	}
	const pod = "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    ports: [{containerPort: 80}]\n    readinessProbe:\n      httpGet: {port: 80}\n"
	for _, c := range []struct{ name, text, line string }{
		{"merge keys", merges + "<<: *x9\n", "line 6: *x4"},
		{"aliases", aliases + pod + "      more: *x9\n", "line 5: *x3"},
		{"aliases of later documents", aliases[:strings.Index(aliases, "x5:")] + strings.Repeat("---\n"+aliases[:strings.Index(aliases, "x5:")], 20), "*x"},
		{"a chain", chain, "line 447: *x445"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, notes := Inject([]File{{"bomb.yaml", c.text}}, options)
			if len(notes) != 1 || !notes[0].Unchanged || !strings.HasPrefix(notes[0].String(), "bomb.yaml: left unchanged: line ") ||
				!strings.Contains(notes[0].Text, c.line) || !strings.Contains(notes[0].Text, "expand to more than 100000 values") {
				t.Errorf("notes %v", notes)
			}
			if files[0].Text != c.text {
				t.Error("the file was changed")
			}
		})
	}
}

func TestAFileWithAliasesIsInjected(t *testing.T) {
	text := "x: &labels {a: b, c: d}\n"
	for i := range 200 {
		text += fmt.Sprintf("---\nkind: Pod\nmetadata: {name: a%d, labels: {a: b}}\nspec:\n  containers:\n  - name: a\n    env: &env%d [{name: A, value: b}]\n"+
			"    ports: [{containerPort: 80}]\n  - name: b\n    env: *env%d\n", i, i, i)
	}
	injected, notes := one(File{"pods.yaml", text}, options)
	if n := strings.Count(injected, "name: "+GateName+"\n"); n != 200 {
		t.Errorf("%d of 200 pods have a gate: %v", n, notes)
	}
}

func TestARecursiveAnchorIsReportedWithItsLine(t *testing.T) {
	_, notes := Inject([]File{{"a.yaml", "a: 1\nb: &b\n  c: [*b]\n"}}, options)
	if len(notes) != 1 || notes[0].String() != "a.yaml: left unchanged: line 3: the anchor &b contains itself" {
		t.Errorf("notes %v", notes)
	}
}

func TestNumbersAreParsedAsByKubectl(t *testing.T) {
	for _, spelled := range []string{
		"8080", "017620", "0o17620", "0x1f90", "0X1F90", "0b1111110010000", "8_080", "+8080", "08080", "8080.0", "8.08e3", "0", "00", "-1", "1.5", "007", "0o8",
		"abc", "~", "true", "yes", ".inf", "99999999999999999999",
	} {
		var want struct {
			V json.RawMessage `json:"v"`
		}
		asJSON, err := kubectl.YAMLToJSON([]byte("v: " + spelled))
		if err == nil {
			err = json.Unmarshal(asJSON, &want)
		}
		if err != nil {
			want.V = []byte("none") // JSON has no infinity
		}
		var document yaml.Node
		if err := yaml.Unmarshal([]byte("v: "+spelled), &document); err != nil {
			t.Fatal(err)
		}
		n := document.Content[0].Content[1]
		i, ok := integer(n)
		number, err := strconv.ParseFloat(string(want.V), 64)
		isInteger := err == nil && number == float64(int64(number)) && number < 1<<53
		if ok != isInteger || ok && float64(i) != number {
			t.Errorf("%s is read as %d, %v; kubectl reads %s", spelled, i, ok, want.V)
		}
		if got := scalarJSON(n); err == nil && number < 1<<53 && got != string(want.V) {
			t.Errorf("%s is written as %s, kubectl reads %s", spelled, got, want.V)
		}
	}
}

func TestAnOctalPortIsParsedAsInKubernetes(t *testing.T) {
	text := `kind: Pod
metadata:
  name: a
spec:
  terminationGracePeriodSeconds: 0x1000
  containers:
  - name: a
    ports:
    - {name: http, containerPort: 017620}
    - {name: other, containerPort: 0x1f4c}
    readinessProbe:
      periodSeconds: 012
      httpGet: {path: /, port: http}
    livenessProbe:
      timeoutSeconds: 0b11
      tcpSocket: {port: 0x1f91}
---
kind: Service
metadata:
  name: a
spec:
  selector: {app: a}
  ports:
  - {port: 80, targetPort: 0o17620}
`
	text = strings.Replace(text, "  name: a\nspec:\n  terminationGrace", "  name: a\n  labels: {app: a}\nspec:\n  terminationGrace", 1)
	o := options
	o.Services = true
	injected, notes := one(File{"a.yaml", text}, o)
	for _, want := range []string{
		"name: USER_PORT value: \"8080\"", `"periodSeconds":10`, `"port":8080`, `"timeoutSeconds":3`, `"port":8081`, "targetPort: " + quote(portHTTP),
		"name: QUEUE_SERVING_PORT value: \"8013\"", // 0x1f4c is 8012
	} {
		if !strings.Contains(strings.Join(strings.Fields(injected), " "), want) {
			t.Errorf("%q is missing in\n%s%v", want, injected, notes)
		}
	}
	if len(notes) != 0 {
		t.Errorf("notes %v", notes)
	}
}

func TestAnAnnotationWithTooManyChangesIsRejected(t *testing.T) {
	r := verbatim{Prefix: "", Changes: make([]change, maxChanges+1)}
	if _, err := decodeVerbatim(r.encode()); err == nil {
		t.Error("the annotation was accepted")
	}
}
