package micro

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/proc"
)

const module = "github.com/queuegate/queuegate"

// Packages are the packages with benchmarks of the request's path: admission,
// heads, counting, probe schedule.
var Packages = []string{
	module + "/pkg/gate",
	module + "/pkg/gate/wire",
	module + "/pkg/gate/wire/h2",
	module + "/pkg/metrics",
	module + "/pkg/probe",
}

// settings say what to measure and how often.
type settings struct {
	packages  []string
	pattern   string // of benchmarks
	benchtime string // as go test -benchtime; empty means its default
	rounds    int
}

// measure runs the benchmarks round by round, all packages in each round, so
// that a machine that becomes slower does so for all of them. It writes a line
// for each step to progress. With an error it returns what it had.
func measure(s settings, progress io.Writer) (rec Recording, err error) {
	dir, err := os.MkdirTemp("", "queuegate-micro-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the test binaries: %w", err)
	}
	defer os.RemoveAll(dir)
	head := fmt.Sprintf("go: %s\ncommit: %s\n", runtime.Version(), proc.Revision(".", "--untracked-files=no"))
	binaries, sources := make([]string, len(s.packages)), make([]string, len(s.packages))
	for i, pkg := range s.packages {
		fmt.Fprintf(progress, "building the tests of %s\n", pkg)
		if sources[i], err = output("go", "list", "-f", "{{.Dir}}", pkg); err != nil {
			return nil, fmt.Errorf("looking for %s: %w", pkg, err)
		}
		binaries[i] = filepath.Join(dir, strconv.Itoa(i)+".test")
		if _, err := output("go", "test", "-c", "-o", binaries[i], pkg); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w", pkg, err)
		}
		if _, err := os.Stat(binaries[i]); err != nil {
			return nil, fmt.Errorf("%s has no tests: %w", pkg, err)
		}
	}
	for round := range s.rounds {
		for i, pkg := range s.packages {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, s.rounds, pkg)
			args := []string{"-test.run=^$", "-test.bench=" + s.pattern}
			if s.benchtime != "" {
				args = append(args, "-test.benchtime="+s.benchtime)
			}
			cmd := exec.Command(binaries[i], args...)
			cmd.Dir = sources[i]
			var both bytes.Buffer
			cmd.Stdout, cmd.Stderr = &both, &both
			if err := cmd.Run(); err != nil {
				return rec, fmt.Errorf("running the benchmarks of %s: %w\n%s", pkg, err, both.Bytes())
			}
			results, err := Parse(strings.NewReader(head+both.String()), pkg)
			if err != nil {
				return rec, err
			}
			rec = append(rec, results...)
		}
	}
	return rec, nil
}

// output runs a command and returns what it printed, without the last line
// end. An error holds what it complained of.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, complaints.Bytes())
	}
	return strings.TrimRight(string(out), "\n"), nil
}
