package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update", false, "write the tables of settings into docs/configuration.md")

const (
	docsPath  = "../../../../docs/configuration.md"
	docsBegin = "<!-- settings: begin; go test ./cmd/queue/internal/config -run Docs -update -->\n"
	docsEnd   = "<!-- settings: end -->\n"
)

func TestDocsHaveTheTableOfTheCode(t *testing.T) {
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), docsBegin)
	tables, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables", docsPath)
	}
	want := settingsTables()
	if *updateDocs {
		if err := os.WriteFile(docsPath, []byte(before+docsBegin+want+docsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if tables != want {
		t.Errorf("%s is not what the code says; run: go test ./cmd/queue/internal/config -run Docs -update", docsPath)
	}
}

func settingsTables() string {
	var b bytes.Buffer
	group := ""
	for _, s := range knownSettings() {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n### %s\n\n| setting | flag | default | accepts | what it does |\n|---|---|---|---|---|\n", group)
		}
		standard, exact := s.standardShown()
		if exact {
			standard = "`" + standard + "`"
		}
		var names []string
		for name := range strings.FieldsSeq(s.names) {
			if !strings.Contains(name, ".") {
				names = append(names, "`"+name+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | `--%s` | %s | %s | %s |\n", strings.Join(names, ", "), s.flag, cell(standard), cell(s.value.about().wants), cell(s.help))
	}
	b.WriteString("\n")
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
