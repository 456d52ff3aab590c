package micro

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/compare"
	"github.com/queuegate/queuegate/bench/internal/proc"
)

// Main is the command "micro [options] [package...]". It runs the benchmarks,
// compares them with the recording and writes the table, and complaints too, to
// stdout. With --record, or if there is no recording yet, the results become
// the recording. The exit code is compare.ExitRegressed if a benchmark became
// worse; never so if the recording is of another machine.
func Main(args []string, stdout io.Writer) int {
	flags := compare.NewFlags("micro", "[package...]\n\nRuns the micro-benchmarks and compares them with the last recorded.\n"+
		"Exit code 1: a benchmark is worse, beyond the noise and the threshold.", 10, stdout)
	s := settings{}
	flags.IntVar(&s.rounds, "count", 6, "`rounds`; the comparison needs 5 on each side")
	flags.StringVar(&s.pattern, "bench", ".", "run the benchmarks that match `regexp`")
	flags.StringVar(&s.benchtime, "benchtime", "", "`time` for each benchmark in a round, as of go test (its default is 1s)")
	file := flags.String("file", "", "the recording (default bench/micro.txt of the repository)")
	record := flags.Bool("record", false, "make the results the recording")
	o, code, done := flags.Read(args)
	if done {
		return code
	}
	fail := flags.Fail
	if s.rounds < 1 {
		return fail(fmt.Errorf("--count is %d, must be at least 1", s.rounds))
	}
	if s.packages = flags.Args(); len(s.packages) == 0 {
		s.packages = Packages
	}
	if *file == "" {
		root, err := proc.ModuleRoot()
		if err != nil {
			return fail(fmt.Errorf("looking for the repository (--file names the recording): %w", err))
		}
		*file = filepath.Join(root, "bench", "micro.txt")
	}
	old, err := read(*file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}

	new, err := measure(s, stdout)
	if err != nil {
		return fail(err)
	}
	if len(new) == 0 {
		return fail(fmt.Errorf("--bench %q matches no benchmark of %v", s.pattern, s.packages))
	}
	if old != nil {
		code = show(old, new, o, flags)
	}
	if *record || old == nil {
		var text bytes.Buffer
		if err := new.write(&text); err != nil {
			return fail(err)
		}
		if err := os.WriteFile(*file, text.Bytes(), 0o644); err != nil {
			return fail(fmt.Errorf("recording: %w", err))
		}
		fmt.Fprintf(stdout, "recorded in %s\n", *file)
	}
	return code
}

// show writes the comparison and returns the exit code.
func show(old, new Recording, o compare.Options, flags *compare.Flags) int {
	code := flags.Show(compare.Compare(old.run(), new.run(), o))
	if why := otherMachine(old, new); why != "" && code != compare.ExitUsage {
		fmt.Fprintf(flags.Out, "not judged: the recording is of another machine: %s\n", why)
		return compare.ExitSame
	}
	return code
}

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
// for each round to progress.
func measure(s settings, progress io.Writer) (rec Recording, err error) {
	head := fmt.Sprintf("go: %s\ncommit: %s\n", runtime.Version(), proc.Revision(".", "--untracked-files=no"))
	args := []string{"test", "-p=1", "-vet=off", "-run=^$", "-bench=" + s.pattern}
	if s.benchtime != "" {
		args = append(args, "-benchtime="+s.benchtime)
	}
	for round := range s.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, s.rounds)
		out, err := exec.Command("go", append(args, s.packages...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("running the benchmarks of %s: %w\n%s", strings.Join(s.packages, ", "), err, out)
		}
		results, err := Parse(strings.NewReader(head+string(out)), "go test")
		if err != nil {
			return nil, err
		}
		rec = append(rec, results...)
	}
	return rec, nil
}
