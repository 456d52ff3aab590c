package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// repetition repeats tests in another process of this test program. In that process a
// program runs between the clients and the gate. The process starts before the other tests
// and runs beside them, because it takes as long as they do.
type repetition struct {
	test     string // the test that reports the result
	program  string
	sections []string               // sections of ROWS.md whose tests are repeated
	omits    func(name string) bool // tests that are not repeated
	env      []string

	names []string
	text  []byte // output of the process
	err   error
	done  chan struct{} // closed when the process has ended
}

// repeats is set in the processes of repetitions.
var repeats = os.Getenv("QUEUEGATE_AGAIN") == "1"

var repetitions = []*repetition{
	{test: "TestTheHTTP1ContractAppliesOverTLS", program: "./test/e2e/overtls", sections: []string{"C", "D"}, omits: isOnlyPlain},
	{test: "TestHTTP1RulesApplyToHTTP2Clients", program: "./test/e2e/overh2", sections: []string{"C", "D", "E", "G"}, omits: isNotOverHTTP2, env: []string{"QUEUEGATE_CLIENTS=h2"}},
}

// startRepetitions starts the repetitions whose tests will run. The caller must call stop.
func startRepetitions(dir string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var started []*repetition
	for _, r := range repetitions {
		if !repeats && isSelected(r.test) {
			r.done = make(chan struct{})
			started = append(started, r)
			go func() {
				defer close(r.done)
				r.text, r.err = r.run(ctx, filepath.Join(dir, filepath.Base(r.program)+".d"))
			}()
		}
	}
	return func() {
		cancel()
		for _, r := range started {
			<-r.done
		}
	}
}

// isSelected reports whether the flags select a test.
func isSelected(name string) bool {
	matches := func(flagName string) (is, isSet bool) {
		top, _, _ := strings.Cut(flag.Lookup(flagName).Value.String(), "/")
		is, err := regexp.MatchString(top, name)
		return err == nil && is, top != ""
	}
	run, _ := matches("test.run")
	skip, skips := matches("test.skip")
	return run && !(skip && skips) && flag.Lookup("test.list").Value.String() == ""
}

func (r *repetition) run(ctx context.Context, dir string) ([]byte, error) {
	rows, err := rowsOf(r.sections...)
	if err != nil {
		return nil, err
	}
	r.names = slices.DeleteFunc(rows, r.omits)
	if len(r.names) < 80 {
		return nil, fmt.Errorf("ROWS.md names %d tests, expected at least 80", len(r.names))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	program, err := launch.Build(dir, r.program)
	if err != nil {
		return nil, err
	}
	gate, err := filepath.Abs(queueBinary)
	if err != nil {
		return nil, err
	}
	if err := os.Symlink(gate, filepath.Join(dir, "under")); err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, os.Args[0], "-test.count=1", "-test.run", "^("+strings.Join(r.names, "|")+")$")
	process.Env = append(append(os.Environ(), "QUEUEGATE_BINARY="+program, "QUEUEGATE_AGAIN=1"), r.env...)
	return process.CombinedOutput()
}

// awaitRepetition waits for the repetition of the running test and reports its result.
func awaitRepetition(t *testing.T) {
	t.Helper()
	t.Parallel()
	for _, r := range repetitions {
		if r.test != t.Name() {
			continue
		}
		<-r.done
		if r.err != nil {
			t.Fatalf("%d tests behind %s: %v\n%s", len(r.names), r.program, r.err, r.text)
		}
		t.Logf("%d tests pass behind %s", len(r.names), r.program)
		return
	}
	t.Fatal("no repetition has this name")
}

// rowsOf returns the tests in these sections of ROWS.md.
func rowsOf(sections ...string) (names []string, err error) {
	text, err := os.ReadFile("ROWS.md")
	if err != nil {
		return nil, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section, _, _ = strings.Cut(strings.TrimSpace(title), ".")
		}
		if !strings.HasPrefix(line, "|") || !slices.Contains(sections, section) {
			continue
		}
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' || r == ',' || r == '|' }) {
			if strings.HasPrefix(word, "Test") && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	return names, nil
}
