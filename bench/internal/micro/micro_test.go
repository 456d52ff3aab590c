package micro

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/compare"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

const recorded = `go: go1.0
commit: abc
goos: linux
goarch: amd64
pkg: example.org/x/pkg/gate
cpu: Some CPU
BenchmarkBeginEnd-2   	 1000	        12.5 ns/op	       0 B/op	       0 allocs/op
BenchmarkBeginEnd-2   	 2000	        13.5 ns/op	       0 B/op	       0 allocs/op
some log line
PASS
pkg: example.org/x/pkg/probe
BenchmarkSchedule/nobody_waits-2	 5	 2e3 ns/op	 155.0 attempts/op	 12 MB/s
ok  	example.org/x/pkg/probe	0.725s
`

func TestTheBenchmarkFormatIsRead(t *testing.T) {
	run := parsed(t, recorded).run()
	if got := fmt.Sprint(run.Meta.Machine.CPU, run.Meta.Machine.OS, run.Meta.Versions["go"], run.Meta.Commit); got != "Some CPUlinux/amd64go1.0abc" {
		t.Errorf("the machine and the versions are %q", got)
	}
	var got []string
	for _, f := range run.Figures {
		got = append(got, fmt.Sprint(f.Round, " ", f.Scenario, " ", f.Target, " ", f.Value, " ", f.Unit))
	}
	want := []string{
		"1 gate BeginEnd-2 12.5 ns/op", "1 gate BeginEnd-2 0 B/op", "1 gate BeginEnd-2 0 allocs/op",
		"2 gate BeginEnd-2 13.5 ns/op", "2 gate BeginEnd-2 0 B/op", "2 gate BeginEnd-2 0 allocs/op",
		"1 probe Schedule/nobody_waits-2 2000 ns/op", "1 probe Schedule/nobody_waits-2 155 attempts/op", "1 probe Schedule/nobody_waits-2 12 MB/s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLinesWithoutResultsAreSkipped(t *testing.T) {
	for _, line := range []string{"", "PASS", "BenchmarkX-2", "--- BENCH: BenchmarkX-2", "Key: value", "two words: value", "http://x"} {
		if got := parsed(t, line); len(got) != 0 {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

func TestAnErrorAboutAnInvalidResultNamesItsLine(t *testing.T) {
	for _, line := range []string{"BenchmarkX 1 2", "BenchmarkX 1 2 ns/op 3", "BenchmarkX one 2 ns/op", "BenchmarkX 1 two ns/op", "BenchmarkX\t1\t2 ns/op\tx MB"} {
		if _, err := Parse(strings.NewReader("PASS\n"+line+"\n"), "x"); err == nil || !strings.Contains(err.Error(), "x:2: ") {
			t.Errorf("%q: error %v", line, err)
		}
	}
}

func TestTheUnitOfABenchmarkDeterminesWhetherLessIsBetter(t *testing.T) {
	for unit, want := range map[string]sample.Better{
		"ns/op": sample.Lower, "cpu-ns/op": sample.Lower, "allocs/op": sample.Lower, "MB/s": sample.Higher, "B/op": sample.Neither, "things": sample.Neither,
	} {
		if got := better(unit); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
}

func parsed(t *testing.T, text string) Recording {
	t.Helper()
	rec, err := Parse(strings.NewReader(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestBenchmarksRecordedOnAnotherMachineAreNeverRegressions(t *testing.T) {
	slow := strings.Repeat("BenchmarkX-2 1 20 ns/op\n", 6)
	head := "cpu: A\ngoos: linux\npkg: p\n"
	old := parsed(t, head+strings.ReplaceAll(slow, "20", "10"))
	for _, c := range []struct {
		name, text string
		code       int
		output     string
	}{
		{"the same machine", head + slow, compare.ExitRegressed, "1 regressed"},
		{"another processor", strings.Replace(head, "A", "B", 1) + slow, compare.ExitSame, "cpu: A -> B"},
		{"more processors", head + strings.ReplaceAll(slow, "X-2", "X-4"), compare.ExitSame, "cores: 2 -> 4"},
		{"one processor", head + strings.ReplaceAll(slow, "X-2", "X"), compare.ExitSame, "cores: 2 -> 1"},
	} {
		var b bytes.Buffer
		flags := compare.NewFlags("micro", "", 10, &b)
		if code, done := flags.Read(nil); done {
			t.Fatalf("no options gave exit code %d", code)
		}
		code := show(old.run(), parsed(t, c.text).run(), flags)
		if code != c.code || !strings.Contains(b.String(), c.output) || strings.Contains(b.String(), "not judged") != (code == compare.ExitSame) {
			t.Errorf("%s: code %d, want %d and %q:\n%s", c.name, code, c.code, c.output, &b)
		}
	}
}

// The package in testdata reads its costs from the environment.
func TestTheMicrobenchmarkCommandMeasuresComparesAndRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "micro.txt")
	run := func(cost string, args ...string) (int, string) {
		t.Helper()
		t.Setenv("QUICK_COST", cost)
		var b bytes.Buffer
		code := Main(append(append([]string{"--file", file, "--benchtime", "1x", "--count", "5"}, args...), "./testdata/quick"), &b)
		return code, b.String()
	}
	content := func() string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	code, text := run("100")
	if code != 0 || !strings.Contains(text, "recorded in "+file) {
		t.Fatalf("first run: code %d:\n%s", code, text)
	}
	first := content()
	rec := parsed(t, first)
	if len(rec) != 5 || string(rec[4].Name[:5]) != "Given" || rec.config("go") == "" || rec.config("commit") == "" || !strings.HasSuffix(rec[0].GetConfig("pkg"), "testdata/quick") {
		t.Fatalf("recorded: %s", first)
	}
	if strings.Contains(first, "PASS") {
		t.Errorf("unexpected lines in the recording: %s", first)
	}

	if code, text = run("100"); code != 0 || strings.Contains(text, "recorded") {
		t.Errorf("second run with the same cost: code %d:\n%s", code, text)
	}
	if code, text = run("150"); code != compare.ExitRegressed || !strings.Contains(text, "+50.0%") {
		t.Errorf("run with 1.5 times the cost: code %d:\n%s", code, text)
	}
	if content() != first {
		t.Error("a comparison changed the recording")
	}
	if code, text = run("150", "--record"); code != compare.ExitRegressed || content() == first {
		t.Errorf("with --record: code %d:\n%s", code, text)
	}
	if code, text = run("150"); code != 0 {
		t.Errorf("after --record: code %d:\n%s", code, text)
	}

	recording := content()
	if code, text = run("not a number", "--record"); code != compare.ExitUsage || !strings.Contains(text, "running the benchmarks of ./testdata/quick") || !strings.Contains(text, "not a number") {
		t.Errorf("a benchmark that fails: code %d:\n%s", code, text)
	}
	if code, text = run("1", "--bench", "Nothing", "--record"); code != compare.ExitUsage || !strings.Contains(text, `--bench "Nothing" matches no benchmark`) {
		t.Errorf("no benchmark: code %d:\n%s", code, text)
	}
	if content() != recording {
		t.Error("a failed run changed the recording")
	}
	if code, text = run("1", "--count", "0"); code != compare.ExitUsage || !strings.Contains(text, "--count is 0") {
		t.Errorf("no round: code %d:\n%s", code, text)
	}
}

func TestEachBenchmarkedPackageHasABenchmark(t *testing.T) {
	for _, pkg := range packages {
		names, err := filepath.Glob(filepath.Join("../../..", pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte("\nfunc Benchmark"))
		}
		if !found {
			t.Errorf("%s has no benchmark", pkg)
		}
	}
}
