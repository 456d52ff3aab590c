// Package testkit has helpers for the tests of several packages. They wait for events,
// and compare generated sections of the documentation with the code. Only tests import
// it.
package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Timeout ends a test that hangs. No test result depends on its value.
const Timeout = 2 * time.Minute

// Update reports whether the test runs with -update: it writes golden files and
// generated documentation instead of comparing them.
var Update = flag.Bool("update", false, "write golden files and generated documentation")

// Until polls until condition is true, and fails the test after Timeout. Use it if no
// event announces the condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	pause := 100 * time.Microsecond
	for end := time.Now().Add(Timeout); !condition(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for: %s", what)
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}

// Receive returns the next value of c, or the zero value if c is closed. It fails the
// test after Timeout.
func Receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Timeout):
		t.Fatalf("timed out waiting for: %s", what)
	}
	return v
}

// Send sends v on c. It fails the test after Timeout.
func Send[T any](t testing.TB, what string, c chan<- T, v T) {
	t.Helper()
	select {
	case c <- v:
	case <-time.After(Timeout):
		t.Fatalf("timed out waiting for: %s", what)
	}
}

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantBug fails the test unless f panics with a message that begins with "BUG:".
func WantBug(t testing.TB, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: ") {
			t.Fatalf("panicked with %q, want BUG: ...", s)
		}
	}()
	f()
}

// Section compares the text want with a section of the documentation. The parameter page
// is the path of the file. The parameters begin and end are the comment lines before and
// after the section. If the test runs with -update, Section replaces the section by want.
func Section(t testing.TB, page, begin, end, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	Must(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	section, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no lines %q and %q", page, begin, end)
	case section == want:
	case *Update:
		Must(t, os.WriteFile(page, []byte(before+begin+want+end+after), 0o644))
	default:
		t.Errorf("%s: the section %q differs from the code; run the test of this package with -run Docs -update", page, strings.TrimSpace(begin))
	}
}

// Golden compares got with a file of testdata, or writes it if the test runs with
// -update.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *Update {
		Must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	Must(t, err)
	if got != string(want) {
		t.Errorf("differs from %s (the test with -update writes it):\n%s", path, got)
	}
}
