// Package limits compares tables of limits in the documentation with the constants of the
// code. Only tests import it.
package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

// Limit is a row of a table of limits.
type Limit struct {
	Name, Value, Beyond string
	Counter             string // outcome or fault that counts violations of the limit; empty = none
}

// CompareWithDocs compares rows with a table in the documentation file page. The table is
// between two HTML comments that contain the name. If the test runs with -update,
// CompareWithDocs writes the table instead.
func CompareWithDocs(t *testing.T, page, name string, rows []Limit) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- limits of %s: begin; written by go test -run Docs -update -->\n", name), fmt.Sprintf("<!-- limits of %s: end -->\n", name)
	var want strings.Builder
	want.WriteString("\n| what | limit | beyond it | counted as |\n|---|---|---|---|\n")
	for _, l := range rows {
		counter := l.Counter
		if counter != "" {
			counter = "`" + counter + "`"
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", l.Name, l.Value, l.Beyond, counter)
	}
	want.WriteString("\n")
	testkit.Section(t, page, begin, end, want.String())
}

// Count formats a number below a million with a comma between thousands.
func Count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// Size formats a multiple of 1 KiB.
func Size(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// Time formats whole seconds or milliseconds.
func Time(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d ms", d/time.Millisecond)
}
