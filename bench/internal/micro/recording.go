// Package micro runs the repository's micro-benchmarks (admission, heads,
// counting, probe schedule) and compares them with the last recorded ones.
//
// A recording, bench/micro.txt, is in the standard benchmark format
// (https://go.dev/design/14313-benchmark-format), so that any tool that reads
// the output of "go test -bench" reads it. Lines "key: value" come before the
// results that they hold for: goos, goarch, pkg and cpu as the test binary
// prints them, and once at the top go, the toolchain, and commit, the revision
// that was measured. A benchmark has as many lines as there were rounds.
package micro

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// A Recording is what a file in the benchmark format holds, in its order.
type Recording []*benchfmt.Result

// config returns the last value of a key.
func (rec Recording) config(key string) string {
	if len(rec) == 0 {
		return ""
	}
	return rec[len(rec)-1].GetConfig(key)
}

// Parse reads the benchmark format; lines of other kinds ("PASS") are passed
// over. A line that begins like a result but is none is an error.
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

// write writes a recording.
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

// run turns a recording into the record of a run, so that one comparison serves
// both: a package is a scenario, a benchmark a target, a unit a figure.
func (rec Recording) run() *sample.Run {
	run := &sample.Run{Meta: sample.Meta{
		Version:  sample.Version,
		Machine:  sample.Machine{CPU: rec.config("cpu"), OS: rec.config("goos") + "/" + rec.config("goarch")},
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

// better knows the units of the testing package, and that any other cost is
// counted "/op". Bytes allocated are not judged where allocations are: a pool
// that was filled once is shared out over as many iterations as there happened
// to be.
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

// otherMachine says why times of two recordings cannot be judged, and "" if
// they can.
func otherMachine(old, new Recording) string {
	for _, key := range []string{"cpu", "goos", "goarch"} {
		if a, b := old.config(key), new.config(key); a != b {
			return fmt.Sprintf("%s was %q and is %q", key, a, b)
		}
	}
	if a, b := old.processors(), new.processors(); !slices.Equal(a, b) {
		return fmt.Sprintf("processors were %v and are %v", a, b)
	}
	return ""
}

// processors returns the distinct suffixes of the names ("2" of "Observe-2").
// One processor leaves no suffix.
func (rec Recording) processors() []string {
	var all []string
	for _, r := range rec {
		n := "1"
		if _, parts := r.Name.Parts(); len(parts) > 0 && parts[len(parts)-1][0] == '-' {
			n = string(parts[len(parts)-1][1:])
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
