package knative

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

const page = "../../../docs/knative.md"

// version is a minor version of Knative Serving and the version of its Go module. The
// module of Knative 1.N has the minor version N+27, so that v0.42 is Knative 1.15.
type version struct {
	minor  int
	module string
}

func (v version) String() string { return fmt.Sprintf("1.%d", v.minor) }

func readVersion(t *testing.T, file string) version {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\n\tknative\.dev/serving (v0\.(\d+)\.\d+)\n`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s requires no release of knative.dev/serving", file)
	}
	minor, err := strconv.Atoi(string(m[2]))
	if err != nil {
		t.Fatal(err)
	}
	return version{minor - 27, string(m[1])}
}

func TestTheDocsListTheTestedMinorVersionsOfKnative(t *testing.T) {
	all := []version{readVersion(t, "go.mod")}
	files, err := filepath.Glob("versions/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		v := readVersion(t, file)
		if want := "versions/" + v.String() + ".mod"; file != want {
			t.Errorf("%s requires %s, which belongs into %s", file, v.module, want)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b version) int { return b.minor - a.minor })
	var rows strings.Builder
	for i, v := range all {
		if want := all[0].minor - i; v.minor != want {
			t.Errorf("1.%d is missing", want)
		}
		updatedBy := "`make minors`"
		switch i {
		case 0:
			updatedBy = "CI, `make cluster KNATIVE=1`"
		case len(all) - 1:
			updatedBy = "CI"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", v, v.module, updatedBy)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- begin: minors -->\n")
	_, after, found := strings.Cut(rest, "<!-- end -->")
	if !found {
		t.Fatalf("%s has no part minors", page)
	}
	want := before + "<!-- begin: minors -->\n| Knative Serving | module | run by |\n|---|---|---|\n" + rows.String() + "<!-- end -->" + after
	if want == string(text) {
		return
	}
	if !*testkit.Update {
		t.Fatalf("%s has other versions (go test -run Minors -update); want\n%s", page, rows.String())
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
