package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

const (
	docsPath  = "../../../../docs/configuration.md"
	docsBegin = "<!-- settings: begin; go test ./cmd/queue/internal/config -run Docs -update -->\n"
	docsEnd   = "<!-- settings: end -->\n"
)

func TestDocsHaveTheTableOfTheCode(t *testing.T) {
	testkit.Section(t, docsPath, docsBegin, docsEnd, settingsTables())
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
		live := ""
		if s.value.isLive() {
			live = " [Live](#live-settings)."
		}
		fmt.Fprintf(&b, "| %s | `--%s` | %s | %s | %s |\n", strings.Join(names, ", "), s.flag, cell(standard), cell(s.value.about().wants), cell(s.help)+live)
	}
	b.WriteString("\n")
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
