package promise

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update   = flag.Bool("update", false, "record new names")
	breaking = flag.Bool("break", false, "with -update: also record removed and changed names")
)

// compareRecord compares lines with a record.
func compareRecord(t *testing.T, record string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", record)
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	recorded := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(text) == 0 {
		recorded = nil
	}
	slices.Sort(lines)
	removed, added := differences(recorded, lines)
	if len(removed) > 0 && !*breaking {
		t.Errorf("this breaks users: these lines of %s are no longer valid:\n\t%s\nIf that is intended: a line in CHANGELOG.md, and go test ./test/promise -update -break",
			path, strings.Join(removed, "\n\t"))
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(removed)+len(added) > 0 {
		t.Errorf("new names, which the next version will guarantee:\n\t%s\nRecord it: go test ./test/promise -update", strings.Join(added, "\n\t"))
	}
}

// differences returns the elements that only before has, and those that only after has.
func differences(before, after []string) (removed, added []string) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			removed = append(removed, line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			added = append(added, line)
		}
	}
	return removed, added
}

func TestRemovedAndAddedNamesAreReported(t *testing.T) {
	removed, added := differences([]string{"A int", "B int"}, []string{"A string", "B int", "C int"})
	if !slices.Equal(removed, []string{"A int"}) || !slices.Equal(added, []string{"A string", "C int"}) {
		t.Errorf("gone %q, added %q", removed, added)
	}
}
