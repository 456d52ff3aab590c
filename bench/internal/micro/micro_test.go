package micro

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
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
	got, err := Parse(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	want := &Recording{
		Config: map[string]string{"go": "go1.0", "commit": "abc", "goos": "linux", "goarch": "amd64", "pkg": "example.org/x/pkg/probe", "cpu": "Some CPU"},
		Results: []Result{
			{"example.org/x/pkg/gate", "BeginEnd-2", 1000, []Value{{12.5, "ns/op"}, {0, "B/op"}, {0, "allocs/op"}}},
			{"example.org/x/pkg/gate", "BeginEnd-2", 2000, []Value{{13.5, "ns/op"}, {0, "B/op"}, {0, "allocs/op"}}},
			{"example.org/x/pkg/probe", "Schedule/nobody_waits-2", 5, []Value{{2000, "ns/op"}, {155, "attempts/op"}, {12, "MB/s"}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLinesThatAreNoResultsArePassedOver(t *testing.T) {
	for _, line := range []string{"", "PASS", "Benchmarking is fun 1 2 ns/op", "BenchmarkX-2", "--- BENCH: BenchmarkX-2", "Key: value", "two words: value", "http://x"} {
		got, err := Parse(strings.NewReader(line))
		if err != nil || len(got.Results) != 0 || len(got.Config) != 0 {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
}

func TestBrokenResultsAreErrorsWithTheirLine(t *testing.T) {
	for line, want := range map[string]string{
		"BenchmarkX 1 2":               "line 2: ",
		"BenchmarkX 1 2 ns/op 3":       "line 2: ",
		"BenchmarkX one 2 ns/op":       `line 2: the count of X is "one"`,
		"BenchmarkX 0 2 ns/op":         `line 2: the count of X is "0"`,
		"BenchmarkX 1 two ns/op":       "line 2: a value of X: ",
		"BenchmarkX\t1\t2 ns/op\tx MB": "line 2: a value of X: ",
	} {
		if _, err := Parse(strings.NewReader("PASS\n" + line + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", line, err, want)
		}
	}
}

func TestUnitsSayWhatIsBetter(t *testing.T) {
	for unit, want := range map[string]sample.Better{
		"ns/op": sample.Lower, "cpu-ns/op": sample.Lower, "allocs/op": sample.Lower, "MB/s": sample.Higher, "B/op": sample.Neither, "things": sample.Neither,
	} {
		if got := better(unit); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
}

func parsed(t *testing.T, text string) *Recording {
	t.Helper()
	rec, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRecordingsOfOtherMachinesAreNotJudged(t *testing.T) {
	slow := strings.Repeat("BenchmarkX-2 1 20 ns/op\n", 6)
	head := "cpu: A\ngoos: linux\npkg: p\n"
	old := parsed(t, head+strings.ReplaceAll(slow, "20", "10"))
	for _, c := range []struct {
		what, text string
		code       int
		says       string
	}{
		{"the same machine", head + slow, compare.ExitRegressed, "1 regressed"},
		{"another processor", strings.Replace(head, "A", "B", 1) + slow, compare.ExitSame, `another machine: cpu was "A" and is "B"`},
		{"more processors", head + strings.ReplaceAll(slow, "X-2", "X-4"), compare.ExitSame, "another machine: processors were [2] and are [4]"},
		{"one processor", head + strings.ReplaceAll(slow, "X-2", "X"), compare.ExitSame, "processors were [2] and are [1]"},
	} {
		var b bytes.Buffer
		code, err := show(old, parsed(t, c.text), compare.Options{}, false, &b)
		if err != nil || code != c.code || !strings.Contains(b.String(), c.says) {
			t.Errorf("%s: code %d, want %d and %q (%v):\n%s", c.what, code, c.code, c.says, err, &b)
		}
	}
}

// TestTheCommandMeasuresComparesAndRecords runs real benchmarks of the package
// in testdata, whose cost comes from the environment.
func TestTheCommandMeasuresComparesAndRecords(t *testing.T) {
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
		t.Fatalf("the first time: code %d:\n%s", code, text)
	}
	first := content()
	rec := parsed(t, first)
	if len(rec.Results) != 5 || rec.Results[4].Name[:5] != "Given" || rec.Config["go"] == "" || rec.Config["commit"] == "" || !strings.HasSuffix(rec.Results[0].Package, "testdata/quick") {
		t.Fatalf("recorded: %s", first)
	}
	if strings.Contains(first, "PASS") {
		t.Errorf("lines that belong to no recording: %s", first)
	}

	if code, text = run("100"); code != 0 || strings.Contains(text, "recorded") {
		t.Errorf("the same again: code %d:\n%s", code, text)
	}
	if code, text = run("150"); code != compare.ExitRegressed || !strings.Contains(text, "+50.0%") {
		t.Errorf("half as much again: code %d:\n%s", code, text)
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
	out := filepath.Join(t.TempDir(), "out.txt")
	if code, text = run("not a number", "--out", out, "--record"); code != compare.ExitUsage || !strings.Contains(text, "running the benchmarks of ./testdata/quick") || !strings.Contains(text, "not a number") {
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

func TestThePackagesHaveTheirBenchmarks(t *testing.T) {
	for _, pkg := range Packages {
		dir, err := output("go", "list", "-f", "{{.Dir}}", pkg)
		if err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
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
