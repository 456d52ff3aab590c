// Package micro runs the repository's micro-benchmarks, and compares them with the
// recorded ones.
//
// The recording, bench/micro.txt, is in the standard benchmark format
// (https://go.dev/design/14313-benchmark-format), with one line per benchmark and round.
// A line "key: value" applies to all results below the line. The key "go" has the version
// of the toolchain, and "commit" has the measured revision. The test binary prints the
// other keys: goos, goarch, pkg and cpu.
package micro

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/queuegate/queuegate/bench/internal/compare"
	"github.com/queuegate/queuegate/bench/internal/proc"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

// A Recording is the content of a file in the benchmark format, in order.
type Recording []*benchfmt.Result

func (rec Recording) config(key string) string {
	if len(rec) == 0 {
		return ""
	}
	return rec[len(rec)-1].GetConfig(key)
}

// Parse reads the benchmark format. It skips lines such as "PASS", but a malformed result
// is an error.
func Parse(r io.Reader, name string) (Recording, error) {
	var rec Recording
	reader := benchfmt.NewReader(r, name)
	for reader.Scan() {
		switch line := reader.Result().(type) {
		case *benchfmt.Result:
			rec = append(rec, line.Clone())
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("reading benchmarks: %w", line)
		}
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("reading benchmarks: %w", err)
	}
	return rec, nil
}

func (rec Recording) write(w io.Writer) error {
	writer := benchfmt.NewWriter(w)
	for _, r := range rec {
		if err := writer.Write(r); err != nil {
			return fmt.Errorf("writing benchmarks: %w", err)
		}
	}
	return nil
}

func read(name string) (Recording, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	defer f.Close()
	return Parse(f, name)
}

// run converts a recording to a run: packages become scenarios, benchmarks become
// targets, and units become figures.
func (rec Recording) run() *sample.Run {
	run := &sample.Run{Meta: sample.Meta{
		Version:  sample.Version,
		Machine:  sample.Machine{CPU: rec.config("cpu"), OS: rec.config("goos") + "/" + rec.config("goarch"), Cores: rec.processors()},
		Versions: map[string]string{"go": rec.config("go")},
		Commit:   rec.config("commit"),
	}}
	rounds := map[[2]string]int{}
	for _, r := range rec {
		pkg, name := shortPackage(r.GetConfig("pkg")), r.Name.String()
		rounds[[2]string{pkg, name}]++
		for _, v := range r.Values {
			if v.OrigUnit != "" {
				v.Value, v.Unit = v.OrigValue, v.OrigUnit
			}
			run.Figures = append(run.Figures, sample.Figure{
				Round: rounds[[2]string{pkg, name}], Scenario: pkg, Target: name,
				Figure: v.Unit, Value: v.Value, Unit: v.Unit, Better: better(v.Unit),
			})
		}
	}
	return run
}

// better reports whether lower or higher values of a unit are better. Units that end in
// "/op" are costs, so lower is better. But "B/op", the allocated bytes, is Neither: it
// includes the cost of filling a pool once, divided by the number of iterations. That
// number varies between runs.
func better(unit string) sample.Better {
	switch {
	case unit == "B/op":
		return sample.Neither
	case strings.HasSuffix(unit, "/op"):
		return sample.Lower
	case strings.HasSuffix(unit, "/s"):
		return sample.Higher
	}
	return sample.Neither
}

func shortPackage(p string) string {
	if _, after, ok := strings.Cut(p, "/pkg/"); ok {
		return after
	}
	return path.Base(p)
}

// processors returns the largest processor count in the names of benchmarks ("2" in
// "Observe-2"). Without such a suffix the count is 1.
func (rec Recording) processors() int {
	most := 1
	for _, r := range rec {
		if _, parts := r.Name.Parts(); len(parts) > 0 {
			if n, err := strconv.Atoi(strings.TrimPrefix(string(parts[len(parts)-1]), "-")); err == nil {
				most = max(most, n)
			}
		}
	}
	return most
}

// Main implements "micro [options] [directory...]". It runs the benchmarks, compares them
// with the recording, and writes the table and any errors to stdout. With --record, or
// without a recording, the results become the recording. The exit code is
// compare.ExitRegressed if a benchmark became worse on the same machine.
func Main(args []string, stdout io.Writer) int {
	flags := compare.NewFlags("micro", "[directory...]\n\nRuns the micro-benchmarks and compares them with the last recorded.\n"+
		"Exit code 1: a benchmark is worse, beyond the noise and the threshold.", 10, stdout)
	s := settings{}
	flags.IntVar(&s.rounds, "count", 6, "`rounds`; the comparison needs 5 on each side")
	flags.StringVar(&s.pattern, "bench", ".", "run the benchmarks that match `regexp`")
	flags.StringVar(&s.benchtime, "benchtime", "", "`time` for each benchmark in a round, as of go test (its default is 1s)")
	file := flags.String("file", "", "the recording (default bench/micro.txt of the repository)")
	record := flags.Bool("record", false, "make the results the recording")
	code, done := flags.Read(args)
	if done {
		return code
	}
	fail := flags.Fail
	if s.rounds < 1 {
		return fail(fmt.Errorf("--count is %d, must be at least 1", s.rounds))
	}
	root, err := proc.RepositoryRoot()
	if err != nil {
		return fail(err)
	}
	if s.packages = flags.Args(); len(s.packages) == 0 {
		for _, p := range packages {
			s.packages = append(s.packages, filepath.Join(root, p))
		}
	}
	if *file == "" {
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
		code = show(old.run(), new.run(), flags)
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
func show(old, new *sample.Run, flags *compare.Flags) int {
	code := flags.Compare(old, new)
	if old.Meta.Machine != new.Meta.Machine {
		fmt.Fprintln(flags.Out, "not judged: the recording is of another machine")
		return compare.ExitSame
	}
	return code
}

var packages = []string{"pkg/gate/admission", "pkg/gate/wire", "pkg/gate/wire/h2", "pkg/metrics", "pkg/probe"}

type settings struct {
	packages  []string // directories
	pattern   string   // pattern of benchmark names
	benchtime string   // value of go test -benchtime; "" = its default
	rounds    int
}

// measure builds the test program of each package once. It runs all programs in each
// round, so that a slowdown of the machine affects all packages alike. It writes a line
// per round to progress.
func measure(s settings, progress io.Writer) (rec Recording, err error) {
	head := fmt.Sprintf("go: %s\ncommit: %s\n", runtime.Version(), proc.Revision(".", "--untracked-files=no"))
	args := []string{"-test.run=^$", "-test.bench=" + s.pattern}
	if s.benchtime != "" {
		args = append(args, "-test.benchtime="+s.benchtime)
	}
	programs, err := os.MkdirTemp("", "micro")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(programs)
	program := func(i int) string { return filepath.Join(programs, strconv.Itoa(i)) }
	for i, dir := range s.packages {
		build := exec.Command("go", "test", "-c", "-vet=off", "-o", program(i))
		build.Dir = dir // the package is not in the harness's module
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the benchmarks of %s: %w\n%s", dir, err, out)
		}
	}
	for round := range s.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, s.rounds)
		for i, dir := range s.packages {
			test := exec.Command(program(i), args...)
			test.Dir = dir
			out, err := test.CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("running the benchmarks of %s: %w\n%s", dir, err, out)
			}
			results, err := Parse(strings.NewReader(head+string(out)), "go test")
			if err != nil {
				return nil, err
			}
			rec = append(rec, results...)
		}
	}
	return rec, nil
}
