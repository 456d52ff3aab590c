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

// hold compares lines with a record.
func hold(t *testing.T, record string, lines []string) {
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
	gone, added := differences(recorded, lines)
	if len(gone) > 0 && !*breaking {
		t.Errorf("this breaks users: these lines of %s are no longer valid:\n\t%s\nIf that is intended: a line in CHANGELOG.md, and go test ./test/promise -update -break",
			path, strings.Join(gone, "\n\t"))
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(gone)+len(added) > 0 {
		t.Errorf("new names, which the next version will guarantee:\n\t%s\nRecord it: go test ./test/promise -update", strings.Join(added, "\n\t"))
	}
}

// differences returns the elements that only before has, and those that only after has.
func differences(before, after []string) (gone, added []string) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			gone = append(gone, line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			added = append(added, line)
		}
	}
	return gone, added
}

func TestRemovedAndAddedNamesAreReported(t *testing.T) {
	gone, added := differences([]string{"A int", "B int"}, []string{"A string", "B int", "C int"})
	if !slices.Equal(gone, []string{"A int"}) || !slices.Equal(added, []string{"A string", "C int"}) {
		t.Errorf("gone %q, added %q", gone, added)
	}
}
