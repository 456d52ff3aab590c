package manifest

import (
	"strings"
	"testing"

	kubectl "sigs.k8s.io/yaml"
)

// gateEdits are typical edits of an injected gate by people and tools.
var gateEdits = []struct{ name, old, new string }{
	{"image bump", "image: registry.example/queuegate\n", "image: registry.example/queuegate:2 # renovate\n"},
	{"variable", "            - name: SERVING_NAMESPACE\n", "            - name: QUEUE_CAPACITY\n              value: \"7\"\n            - name: SERVING_NAMESPACE\n"},
	{"resources", "              cpu: 500m\n              memory: 128Mi\n", "              # A burst needs more.\n              cpu: 700m\n              memory: 256Mi\n"},
	{"removed probe", "          livenessProbe:\n            periodSeconds: 10\n            timeoutSeconds: 5\n            httpGet:\n              path: /health/alive\n              port: 8022\n", ""},
}

func TestInjectingAgainKeepsEditsOfTheGate(t *testing.T) {
	text := read(t, "testdata/plain.yaml")
	injected, _ := one(File{"plain.yaml", text}, options)
	for _, c := range gateEdits {
		edited := strings.Replace(injected, c.old, c.new, 1)
		if edited == injected {
			t.Fatalf("%s: %q is not there", c.name, c.old)
		}
		second, notes := one(File{"plain.yaml", edited}, options)
		if second != edited || len(notes) != 1 {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", c.name, notes, second, edited)
		}
		other := options
		other.Set = map[string]string{"QUEUE_MAX_WAIT": "5s"}
		changed, _ := one(File{"plain.yaml", edited}, other)
		if !strings.Contains(changed, "name: QUEUE_MAX_WAIT") || c.new != "" && !strings.Contains(changed, strings.Split(c.new, "\n")[0]) ||
			c.new == "" && strings.Contains(changed, "periodSeconds: 10") {
			t.Errorf("%s: with another flag the edit or the flag is lost:\n%s", c.name, changed)
		}
	}
}

func TestInjectWithAChangedFlagReplacesAnEditedValueAndReportsTheEdit(t *testing.T) {
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	edited := strings.Replace(injected, "image: registry.example/queuegate\n", "image: registry.example/queuegate:2\n", 1)
	other := options
	other.Image = "registry.example/queuegate:3"
	got, notes := one(File{"plain.yaml", edited}, other)
	if !strings.Contains(got, "image: registry.example/queuegate:3\n") || len(notes) != 2 || !strings.Contains(notes[0].Text, `the gate's image was edited to "registry.example/queuegate:2"`) {
		t.Errorf("%v\n%s", notes, got)
	}
}

func TestUninjectRemovesAnEditedGate(t *testing.T) {
	text := read(t, "testdata/plain.yaml")
	injected, _ := one(File{"plain.yaml", text}, options)
	for _, c := range gateEdits {
		edited := strings.Replace(injected, c.old, c.new, 1)
		back, notes := Uninject([]File{{"plain.yaml", edited}})
		if back[0].Text != text || len(notes) > 0 {
			t.Errorf("%s: %v\n%s", c.name, notes, back[0].Text)
		}
	}
}

// kustomize and helm write manifests with sorted keys and without comments.
func TestAReformattedManifestIsInjectedAgainAndUninjected(t *testing.T) {
	checked := 0
	for _, f := range corpus(t) {
		if strings.Contains(f.Name, " ") || strings.HasPrefix(f.Name, "broken") {
			continue
		}
		injected, _ := one(f, options)
		if !strings.Contains(injected, Annotation+`: '{`) {
			continue // no JSON record: the file is unchanged or has a verbatim record
		}
		var formatted []string
		for _, document := range decode(t, File{f.Name, injected}) {
			asYAML, err := kubectl.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			formatted = append(formatted, string(asYAML))
		}
		text := strings.Join(formatted, "---\n")
		back, notes := Uninject([]File{{f.Name, text}})
		if len(notes) > 0 || strings.Contains(back[0].Text, Annotation) || !sameContent(t, f, back[0]) {
			t.Errorf("%s: %v\n%s", f.Name, notes, back[0].Text)
			continue
		}
		checked++
		if strings.Contains(f.Text, ": *") {
			// The formatter has expanded the aliases. Inject can now rewrite probes that
			// it left unchanged before, so the result may differ.
			continue
		}
		second, _ := one(File{f.Name, text}, options)
		if !sameContent(t, File{f.Name, injected}, File{f.Name, second}) {
			t.Errorf("%s: injected again:\n%s", f.Name, second)
		}
	}
	if checked < 8 {
		t.Errorf("only %d files", checked)
	}
}

// sameContent reports whether two files have equal objects. It ignores the annotation
// in which Inject stores its record.
func sameContent(t *testing.T, a, b File) bool {
	t.Helper()
	content := func(f File) (all []string) {
		documents := decode(t, f)
		eachMap(documents, func(m map[string]any) {
			delete(m, Annotation)
			if annotations, ok := m["annotations"].(map[string]any); ok && len(annotations) == 0 {
				delete(m, "annotations")
			}
		})
		for _, d := range documents {
			if d == nil {
				continue
			}
			text, err := kubectl.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return all
	}
	return strings.Join(content(a), "---\n") == strings.Join(content(b), "---\n")
}

func TestTheRecordIsShortAndReadable(t *testing.T) {
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	for line := range strings.Lines(injected) {
		if _, record, found := strings.Cut(line, Annotation+": "); found && (len(record) > 500 || !strings.HasPrefix(record, "'{")) {
			t.Errorf("%d bytes: %s", len(record), record)
		}
	}
}

func TestTheRecordsOfEarlierVersionsAreRead(t *testing.T) {
	injected, text := read(t, "testdata/earlier/injected.yaml"), read(t, "testdata/plain.yaml")
	back, notes := Uninject([]File{{"plain.yaml", injected}})
	if back[0].Text != text || len(notes) > 0 {
		t.Errorf("%v\n%s", notes, back[0].Text)
	}
	edited := strings.Replace(injected, "              periodSeconds: 10\n", "", 1)
	edited = strings.Replace(edited, "  periodSeconds: 10\n", "  periodSeconds: 11\n", 1)
	_, notes = Uninject([]File{{"plain.yaml", edited}})
	if len(notes) != 1 || !notes[0].Failed || !strings.Contains(notes[0].Text, `is "periodSeconds: 11", was "periodSeconds: 10"`) || strings.Contains(notes[0].Text, "\n") {
		t.Errorf("%v", notes)
	}
}

func TestAnEditedRecordDoesNotDamageTheFile(t *testing.T) {
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	start := strings.Index(injected, Annotation+": '") + len(Annotation) + 3
	end := start + strings.Index(injected[start:], "'\n")
	bomb := `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e]`
	for _, record := range []string{
		`{`, `{"was":1}`, `{"was":{"web/readinessProbe":"a: [","web/livenessProbe":"- b"}}`, `{"was":{"web/readinessProbe":"` + bomb + `"}}`,
		`{"at":{"web/readinessProbe":{"after":"name","lines":-9}},"was":{"web/readinessProbe":"x: y"}}`, `{"grace":330,"volume":"queuegate"}`,
		`{"at":{"web/readinessProbe":{"after":"name","lines":99999999}}}`,
	} {
		edited := injected[:start] + record + injected[end:]
		back, _ := Uninject([]File{{"plain.yaml", edited}})
		if _, err := parse(back[0].Text); err != nil {
			t.Errorf("%s: %v\n%s", record, err, back[0].Text)
		}
		second, _ := one(File{"plain.yaml", edited}, options)
		if _, err := parse(second); err != nil {
			t.Errorf("%s: injected again: %v\n%s", record, err, second)
		}
	}
}

func TestTheGateFollowsAChangedPortOfTheApplication(t *testing.T) {
	injected, _ := one(File{"plain.yaml", read(t, "testdata/plain.yaml")}, options)
	edited := strings.Replace(injected, "containerPort: 8080\n", "containerPort: 8081\n", 1)
	edited = strings.Replace(edited, "image: registry.example/queuegate\n", "image: registry.example/queuegate:2\n", 1)
	got, _ := one(File{"plain.yaml", edited}, options)
	if !strings.Contains(got, "USER_PORT\n              value: \"8081\"\n") || !strings.Contains(got, "image: registry.example/queuegate:2\n") {
		t.Errorf("got:\n%s", got)
	}
}

// A record has one text for each name of a container. If many containers have the same
// name, only one of them gets the text. Otherwise a small file could become huge.
func TestUninjectRestoresEachRecordedTextInAtMostOneContainer(t *testing.T) {
	probe := strings.Repeat("x", 100_000)
	var text strings.Builder
	text.WriteString("kind: Pod\nmetadata:\n  name: a\n  annotations:\n    " + Annotation + `: '{"was":{"a/readinessProbe":"readinessProbe: ` + probe +
		`"},"at":{"a/readinessProbe":{"after":"name","lines":9223372036854775807}}}'` + "\nspec:\n  containers:\n")
	for range 5000 {
		text.WriteString("  - name: a\n    image: b\n")
	}
	back, _ := Uninject([]File{{"a.yaml", text.String()}})
	if len(back[0].Text) > text.Len()+len(probe) {
		t.Errorf("%d bytes became %d", text.Len(), len(back[0].Text))
	}
}
