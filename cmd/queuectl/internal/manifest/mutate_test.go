package manifest

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Most mutated manifests are unusual, and some are not YAML.
func TestMutatedManifestsAreRestoredByUninject(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"\n", " ", "  ", "-", "- ", ":", "#", `"`, "'", "{", "}", "[", "]", ",", "|", ">", "&a ", "*a", "\t", "\r", "<<: ", "é", "null", "!!str ", " #x", "\n\n"}
	var seeds []string
	for _, f := range corpus(t) {
		if len(f.Text) > 40 && !strings.Contains(f.Name, " ") {
			seeds = append(seeds, f.Text)
		}
	}
	changed := 0
	for range 2000 {
		text := seeds[random.IntN(len(seeds))]
		for range 1 + random.IntN(4) {
			at, from := random.IntN(len(text)), random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text = text[:at] + pieces[random.IntN(len(pieces))] + text[at:]
			case 1:
				text = text[:at] + text[min(len(text), at+1+random.IntN(6)):]
			case 2:
				text = text[:at] + text[from:min(len(text), from+random.IntN(40))] + text[at:]
			}
		}
		injected, _ := one(File{"x", text}, options)
		if injected == text {
			continue
		}
		changed++
		if _, err := parse(injected); err != nil {
			t.Errorf("%v:\n%s", err, injected)
		}
		if back, notes := Uninject([]File{{"x", injected}}); back[0].Text != text {
			t.Errorf("%v\ngot:\n%s\nwant:\n%s", notes, back[0].Text, text)
		}
	}
	if changed < 100 {
		t.Errorf("only %d of 2000 were changed", changed)
	}
}
