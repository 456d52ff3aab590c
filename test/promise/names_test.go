package promise

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The test reads the names from docs/configuration.md instead of the code. That is
// enough, because a test of package config compares this page with the code.
func TestSettingNamesMatchTheirRecord(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| (`[A-Z0-9_`, ]+`) \\| `(--[a-z0-9-]+)` \\| (.*?[^\\\\]) \\|")
	var lines []string
	for _, m := range row.FindAllStringSubmatch(read(t, "../../docs/configuration.md"), -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(m[1], "`", ""), ", ") {
			lines = append(lines, fmt.Sprintf("%s %s default %s", name, m[2], strings.ReplaceAll(m[3], "`", "")))
		}
	}
	if len(lines) < 70 {
		t.Fatalf("only %d settings", len(lines))
	}
	compareRecord(t, "settings.txt", lines)
}

// The test reads the names from a golden metrics page instead of the code. That is
// enough, because a test of package metrics compares this page with the code.
func TestMetricNamesMatchTheirRecord(t *testing.T) {
	page := read(t, "../../pkg/metrics/testdata/page.txt")
	kinds := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(page, -1) {
		kinds[m[1]] = m[2]
	}
	if len(kinds) < 30 {
		t.Fatalf("only %d metrics", len(kinds))
	}
	labels := map[string][]string{}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9_]*)(\{.*\})? \S+$`).FindAllStringSubmatch(page, -1) {
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if family := strings.TrimSuffix(name, suffix); kinds[family] == "histogram" {
				name = family
			}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" && !slices.Contains(labels[name], l[1]) {
				labels[name] = append(labels[name], l[1])
			}
		}
	}
	var lines []string
	for name, kind := range kinds {
		slices.Sort(labels[name])
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, name, strings.Join(labels[name], " "))))
	}
	compareRecord(t, "metrics.txt", lines)
}

func TestOutcomeNamesMatchTheirRecord(t *testing.T) {
	var lines []string
	for _, o := range gate.Outcomes() {
		m := o.Meaning()
		lines = append(lines, fmt.Sprintf("%s status %d grpc %d", m.Name, m.Status, m.GRPC))
	}
	compareRecord(t, "outcomes.txt", lines)
}
