package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryRowOfROWSNamesItsTest(t *testing.T) {
	exists := testNames(t)
	named := map[string]bool{}
	rows := map[string]int{}
	section := ""
	text, err := os.ReadFile("ROWS.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section, _, _ = strings.Cut(title, ".")
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.TrimSpace(cells[0]) == "row" || strings.HasPrefix(line, "|---") {
			continue
		}
		rows[section]++
		for name := range strings.SplitSeq(cells[len(cells)-1], ",") {
			name = strings.TrimSpace(name)
			switch {
			case name == "`pkg/probe`" || name == "`pkg/metrics`":
			case !exists[name]:
				t.Errorf("row %q names %q, which is not a test of this package", strings.TrimSpace(cells[0]), name)
			default:
				named[name] = true
			}
		}
	}
	for _, s := range []string{"B", "C", "D", "E", "G"} {
		if rows[s] == 0 {
			t.Errorf("section %s has no row", s)
		}
	}
	for name := range exists {
		if !named[name] {
			t.Errorf("%s stands for no row", name)
		}
	}
}

// testNames finds the test functions of this package.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
