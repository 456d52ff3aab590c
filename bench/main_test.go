package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/awake"
	"github.com/queuegate/queuegate/bench/internal/child/childtest"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

func TestMain(m *testing.M) {
	childtest.Main(m, map[string]func(io.Reader, io.Writer) error{load.Command: load.Main, origin.Command: origin.Main, awake.Command: awake.Main})
}

func TestAQuickRunMeasuresRequestsThroughTheGateAndWithoutIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	var complaints bytes.Buffer
	code := run([]string{"run", "--quick", "--duration", "100ms", "--targets", "direct,queuegate", "--out", dir,
		"--scenarios", "keepalive-64,open-connections-10000,keepalive-64-limit-32,open-2000,open-2000-awake,download-100MB,upload-1KB,chunk-delay,chunk-delay-awake,websocket-64,h2c-to-http1-8x8,h2c-to-h2c-1x64,h2c-grpc-unary,h2c-grpc-stream,new-connection,idle,start,cold-start"},
		strings.NewReader(""), &complaints, &complaints)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, &complaints)
	}
	r, err := sample.ReadFile(filepath.Join(dir, sample.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Notes {
		if strings.Contains(n.Text, "failed") || strings.Contains(n.Text, "no figures") {
			t.Errorf("%s %s: %s", n.Scenario, n.Target, n.Text)
		}
	}
	// The bounds are wide, so that only a wrong count exceeds them.
	for _, want := range []struct {
		scenario, figure string
		least, most      float64
	}{
		{"keepalive-64", "cpu_per_request", 0.5, 1e4},
		{"keepalive-64", "requests_per_second", 10, 1e8},
		{"keepalive-64", "rss_loaded", 2, 1000},
		{"keepalive-64", "private_memory_loaded", 0.5, 1000},
		{"open-connections-10000", "cpu_per_request", 0.5, 1e4},
		{"open-connections-10000", "requests_per_second", 10, 1e8},
		{"keepalive-64-limit-32", "cpu_per_request", 0.5, 1e4},
		{"open-2000", "cpu_per_request", 0.5, 1e5},
		{"download-100MB", "cpu_per_gb", 0.01, 1000},
		{"upload-1KB", "cpu_per_request", 0.5, 1e5},
		{"chunk-delay", "cpu_per_event", 0.5, 1e5},
		{"open-2000-awake", "cpu_per_request", 0.5, 1e5},
		{"chunk-delay-awake", "cpu_per_event", 0.5, 1e5},
		{"websocket-64", "cpu_per_request", 0.5, 1e5},
		{"new-connection", "cpu_per_request", 0.5, 1e5},
		{"idle", "rss", 2, 1000},
		{"idle", "private_memory", 0.5, 1000},
		{"idle", "wakeups_per_second", 0, 1e5},
		{"start", "exec_to_listening", 0.1, 1e4},
		{"start", "exec_to_first_200", 0.1, 1e4},
		{"start", "binary_size", 0.5, 500},
		{"cold-start", "listening_to_first_200", 0, 1e4},
		{"cold-start", "failed_requests", 0, 0},
	} {
		v, ok := r.Median(want.scenario, "queuegate", want.figure)
		if !ok || v < want.least || v > want.most {
			t.Errorf("%s %s is %v (measured: %v), want %v to %v", want.scenario, want.figure, v, ok, want.least, want.most)
		}
	}
	for _, scenario := range []string{"h2c-to-http1-8x8", "h2c-to-h2c-1x64", "h2c-grpc-unary", "h2c-grpc-stream"} {
		if v, ok := r.Median(scenario, "queuegate", "cpu_per_request"); !ok || v < 0.5 || v > 1e5 {
			t.Errorf("%s: CPU per request is %v (measured: %v)", scenario, v, ok)
		}
	}
	for _, scenario := range []string{"keepalive-64", "open-2000", "open-2000-awake", "chunk-delay", "chunk-delay-awake"} {
		for _, target := range []string{"direct", "queuegate"} {
			for _, p := range load.Percentiles {
				if _, ok := r.Median(scenario, target, sample.PercentileName(p)); !ok {
					t.Errorf("%s %s has no percentile %v", scenario, target, p)
				}
			}
		}
	}
	for _, scenario := range []string{"open-2000", "open-2000-awake", "chunk-delay", "chunk-delay-awake"} {
		if _, ok := r.Median(scenario, "queuegate", "added_p99"); !ok {
			t.Errorf("added latency was not measured in %s", scenario)
		}
	}
	if _, ok := r.Median("keepalive-64", "direct", "cpu_per_request"); ok {
		t.Error("the origin's CPU is recorded as that of a proxy")
	}
	for _, file := range []string{"report.md", "report.html"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	var table bytes.Buffer
	if code := run([]string{"compare", "--all", dir, dir}, nil, &table, &table); code != 0 {
		t.Errorf("a run compared with itself gave exit code %d:\n%s", code, &table)
	}
	results := filepath.Join(dir, "RESULTS.md")
	if code := run([]string{"report", "--results", results, dir}, nil, &complaints, &complaints); code != 0 {
		t.Errorf("report gave exit code %d:\n%s", code, &complaints)
	}
	if _, err := os.Stat(results); err != nil {
		t.Error(err)
	}
}

func TestATargetsFileAddsToTheBuiltInTargets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("targets:\n"+
		"  - {name: mine, about: my proxy, binary: mine, get: from me, command: ['{{.Binary}}']}\n"+
		"  - {name: nginx, about: my nginx, binary: nginx, get: from me, command: ['{{.Binary}}']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	if code := run([]string{"list", "--targets-file", file}, nil, &out, &complaints); code != 0 {
		t.Fatalf("exit code %d: %s", code, &complaints)
	}
	for want, n := range map[string]int{"  direct ": 1, "  queuegate ": 1, "  haproxy ": 1, "my proxy": 1, "  nginx ": 1, "my nginx": 1} {
		if got := strings.Count(out.String(), want); got != n {
			t.Errorf("%q is %d times in:\n%s", want, got, &out)
		}
	}
}

func TestAServerThatAlreadyRunsIsMeasuredWithoutItsCPU(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.2:0") // an address that the harness itself does not use
	if err != nil {
		t.Fatal(err)
	}
	peer := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello, world") })}
	go peer.Serve(listener)
	defer peer.Close()
	dir := filepath.Join(t.TempDir(), "run")
	figures := filepath.Join(t.TempDir(), "figures.csv")
	var complaints bytes.Buffer
	for _, args := range [][]string{
		{"run", "--quick", "--duration", "100ms", "--targets", "direct", "--peer", "mine=http://" + listener.Addr().String() + "/", "--out", dir,
			"--scenarios", "keepalive-64,open-2000,keepalive-64-limit-32,websocket-64,idle"},
		{"report", "--csv", figures, dir},
	} {
		if code := run(args, strings.NewReader(""), &complaints, &complaints); code != 0 {
			t.Fatalf("%v: exit code %d:\n%s", args, code, &complaints)
		}
	}
	r, err := sample.ReadFile(filepath.Join(dir, sample.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		scenario, figure string
		measured         bool
	}{
		{"keepalive-64", "requests_per_second", true}, {"keepalive-64", "p99", true}, {"open-2000", "added_p50", true},
		{"keepalive-64", "cpu_per_request", false}, {"keepalive-64", "rss_loaded", false}, {"idle", "rss", false}, {"websocket-64", "p50", false},
		{"keepalive-64-limit-32", "p50", false},
	} {
		if v, ok := r.Median(f.scenario, "mine", f.figure); ok != f.measured {
			t.Errorf("%s %s is %v, measured: %v", f.scenario, f.figure, v, ok)
		}
	}
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round,scenario,target,figure,value,unit,better\r\n", "\r\n1,keepalive-64,mine,requests_per_second,", "\r\n1,open-2000,mine,added_p99,"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the CSV file:\n%s", want, text)
		}
	}
}

func TestListNamesScenariosAndTargets(t *testing.T) {
	var out, complaints bytes.Buffer
	if code := run([]string{"list"}, nil, &out, &complaints); code != 0 {
		t.Fatalf("exit code %d: %s", code, &complaints)
	}
	for _, want := range []string{"* keepalive-64 ", "  queued-16 ", "direct", "haproxy-tcp", "envoy"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

func TestAnInvalidCommandLineIsExplained(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		output string
	}{
		{nil, exitUsage, "usage"},
		{[]string{"fly"}, exitUsage, `unknown command "fly"`},
		{[]string{"run", "--speed", "9"}, exitUsage, "speed"},
		{[]string{"run", "--rounds", "0", "--duration", "1ms", "extra"}, exitFailed, "--rounds is 0"},
		{[]string{"run", "--rounds", "0", "--duration", "1ms", "extra"}, exitFailed, "--duration is 1ms"},
		{[]string{"run", "--rounds", "0", "--duration", "1ms", "extra"}, exitFailed, `"extra"`},
		{[]string{"run", "--scenarios", "nonsense"}, exitFailed, "nonsense"},
		{[]string{"run", "--targets", "nonsense", "--out", filepath.Join(t.TempDir(), "x")}, exitFailed, "no target is named nonsense"},
		{[]string{"run", "--binary", "nonsense", "--quick"}, exitUsage, "NAME=PATH"},
		{[]string{"run", "--peer", "x"}, exitUsage, "not a URL of the form http://HOST:PORT"},
		{[]string{"run", "--peer", "x=https://127.0.0.1"}, exitUsage, "not a URL of the form http://HOST:PORT"},
		{[]string{"run", "--peer", "x=http://127.0.0.1/path"}, exitUsage, "not a URL of the form http://HOST:PORT"},
		{[]string{"run", "--peer", "X=http://127.0.0.1"}, exitUsage, "lower-case"},
		{[]string{"run", "--peer", "nginx=http://127.0.0.1", "--out", filepath.Join(t.TempDir(), "x")}, exitFailed, "another target has this name"},
		{[]string{"run", "--targets-file", "nowhere.yaml", "--out", filepath.Join(t.TempDir(), "x")}, exitFailed, "nowhere.yaml"},
		{[]string{"report"}, exitUsage, "usage"},
		{[]string{"report", t.TempDir()}, exitFailed, "samples.jsonl"},
		{[]string{"report", "--plots"}, exitUsage, "needs an argument"},
	} {
		var complaints bytes.Buffer
		if code := run(c.args, nil, &complaints, &complaints); code != c.code || !strings.Contains(complaints.String(), c.output) {
			t.Errorf("%v: exit code %d, want %d; it should say %q:\n%s", c.args, code, c.code, c.output, &complaints)
		}
	}
}

func TestProgressIsALineForEachScenario(t *testing.T) {
	var out bytes.Buffer
	show := progress(&out, 2)
	show(1, "idle", 61*time.Second)
	// The second call prints nothing: only the first target of a scenario gets a line.
	show(1, "idle", 50*time.Second)
	show(2, "idle", 20*time.Second)
	if want := "round 1/2  idle  1m1s left\nround 2/2  idle  20s left\n"; out.String() != want {
		t.Fatalf("got %q, want %q", out.String(), want)
	}
}
