package target

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

const testTimeout = 2 * time.Minute

func TestMistakesInTargetsAreReportedTogether(t *testing.T) {
	_, err := Parse([]byte(`
targets:
  - name: Bad Name
    binary: x
    build: ./x
    command: [x]
  - name: direct
    binary: x
    ready: healthz
    does: [fly]
  - name: templates
    binary: x
    get: somewhere
    command: ["{{.Nothing}}"]
  - name: ports
    binary: x
    get: somewhere
    command: ['{{port "admin"}}']
  - name: files
    binary: x
    get: somewhere
    command: ['{{file "x.cfg"}}']
    files: {x.cfg: missing.cfg}
  - name: profiles
    binary: x
    get: somewhere
    command: [x]
    profile: {port: pprof}
`), fstest.MapFS{})
	if err == nil {
		t.Fatal("the file was accepted")
	}
	for _, want := range []string{
		`target 1 ("Bad Name"): name must be`, `target 1 ("Bad Name"): either build, or binary`,
		`target 2: name "direct" is already used`, "get is empty", "command is empty", `ready is "healthz"`, `does "fly" is unknown`,
		`target 3 ("templates"): template of command[0]`,
		`no port is named "admin"`,
		`file x.cfg: open missing.cfg`,
		`profile.port is "pprof"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if strings.Count(err.Error(), "name \"direct\" is already used") != 1 {
		t.Errorf("reported more than once:\n%v", err)
	}
}

func TestAnUnknownFieldOrAFileWithoutTargetsIsRejected(t *testing.T) {
	for _, text := range []string{"targets: []", "", "targets: [{name: x, colour: red}]", "targets: [~]", "peers: []"} {
		if _, err := Parse([]byte(text), fstest.MapFS{}); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestTheBuiltInTargetsAreValidAndDirectIsFirst(t *testing.T) {
	text, err := os.ReadFile("../../targets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	targets, err := Parse(text, os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if targets[0].Name != Direct {
		t.Errorf("the first target is %s", targets[0].Name)
	}
	for _, x := range targets[1:] {
		if x.About == "" {
			t.Errorf("%s has an empty About", x.Name)
		}
		if _, ok := x.Can(Start); !ok {
			t.Errorf("%s cannot start", x.Name)
		}
	}
}

func TestTemplatesGetTheOptionsOfTheScenario(t *testing.T) {
	x := parseOne(t, `
targets:
  - name: x
    binary: x
    get: somewhere
    command: ["{{.Binary}}", '{{port "serve"}}', '{{file "x.cfg"}}']
    env: {LIMIT: "{{.Limit}}", TO: "127.0.0.1:{{.Origin}}"}
    files: {x.cfg: a.cfg}
    ports: [admin]
    profile: {port: admin, env: {PPROF: '{{port "admin"}}'}}
`, fstest.MapFS{"a.cfg": {Data: []byte("h2c={{.H2C}} queue={{.QueueCapacity}} dir={{.Dir}}")}})
	ports := map[string]int{ServePort: 1001, "admin": 1002}
	r, err := x.render("/d", "/bin/x", ports, Options{Origin: 7, Limit: 32, QueueCapacity: 5, H2C: true, Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.argv, " "); got != "/bin/x 1001 /d/x.cfg" {
		t.Errorf("command is %q", got)
	}
	if got := strings.Join(r.env, " "); got != "LIMIT=32 PPROF=1002 TO=127.0.0.1:7" {
		t.Errorf("environment is %q", got)
	}
	if got := r.files["/d/x.cfg"]; got != "h2c=true queue=5 dir=/d" {
		t.Errorf("file is %q", got)
	}
	if r, err = x.render("/d", "/bin/x", ports, Options{Origin: 7}); err != nil || strings.Contains(strings.Join(r.env, " "), "PPROF") {
		t.Errorf("without profiles the environment is %q, %v", r.env, err)
	}
}

func TestTheErrorForAMissingTargetBinarySaysHowToGetIt(t *testing.T) {
	x := parseOne(t, `targets: [{name: x, binary_env: QUEUEGATE_BENCH_NONE, get: "install package x", command: [x]}]`, nil)
	err := x.Find(context.Background(), ".", t.TempDir(), "")
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "install package x") {
		t.Errorf("without the environment variable: %v", err)
	}
	t.Setenv("QUEUEGATE_BENCH_NONE", "/nowhere/x")
	if err = x.Find(context.Background(), ".", t.TempDir(), ""); !errors.Is(err, ErrMissing) {
		t.Errorf("with the path of a missing file: %v", err)
	}
	t.Setenv("QUEUEGATE_BENCH_NONE", "/bin/sh")
	if err = x.Find(context.Background(), ".", t.TempDir(), ""); err != nil {
		t.Errorf("with the path of a file: %v", err)
	}
	if size, err := x.BinarySize(); err != nil || size <= 0 {
		t.Errorf("size is %d, %v", size, err)
	}
	if err = x.Find(context.Background(), ".", t.TempDir(), "/nowhere/y"); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("a wrong path given by the user: %v", err)
	}
}

func TestFreePortsAreDistinctAndBelowThePortsOfClients(t *testing.T) {
	names := strings.Split(strings.Repeat("p ", 50), " ")
	for i := range names {
		names[i] += strconv.Itoa(i)
	}
	seen := map[int]bool{}
	for range 20 { // twenty targets start at once
		ports, err := freePorts(names)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if seen[p] || p < lowestPort {
				t.Fatalf("port %d was given twice, or is too low", p)
			}
			seen[p] = true
		}
		if len(ports) != len(names) {
			t.Fatalf("%d ports for %d names", len(ports), len(names))
		}
	}
}

// shell is a target that starts a child process. It is no proxy.
const shell = `targets: [{name: shell, binary: /bin/sh, get: x, command: ["{{.Binary}}", -c, "echo error one; echo two; sleep 1000 & echo $! > child.pid; : > started; wait"]}]`

func TestStopKillsAllProcessesAndRemovesTheDirectory(t *testing.T) {
	x := parseOne(t, shell, nil)
	base := t.TempDir()
	if err := x.Find(context.Background(), ".", base, ""); err != nil {
		t.Fatal(err)
	}
	i, err := x.Launch(base, Options{Origin: 1})
	if err != nil {
		t.Fatal(err)
	}
	var child int
	for deadline := time.Now().Add(testTimeout); child == 0; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(i.dir, "started")); err == nil {
			text, _ := os.ReadFile(filepath.Join(i.dir, "child.pid"))
			child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if time.Now().After(deadline) {
			i.Stop()
			t.Fatal("the shell did not start its child")
		}
	}
	if tree, err := i.Processes(); err != nil || len(tree) != 2 {
		t.Errorf("processes are %v, %v", tree, err)
	}
	if !i.Alive() {
		t.Error("the instance is not alive")
	}
	i.Stop()
	i.Stop()
	if i.Alive() {
		t.Error("the instance is alive after Stop")
	}
	for _, pid := range []int{i.PID, child} {
		if alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if entries, _ := os.ReadDir(base); len(entries) != 0 {
		t.Errorf("%s was not removed", entries[0].Name())
	}
}

func TestTheErrorOfAProgramThatEndsImmediatelyHasItsOutput(t *testing.T) {
	x := parseOne(t, `targets: [{name: x, binary: /bin/sh, get: x, command: ["{{.Binary}}", -c, "echo error: no such luck; echo bye; exit 3"]}]`, nil)
	base := t.TempDir()
	if err := x.Find(context.Background(), ".", base, ""); err != nil {
		t.Fatal(err)
	}
	_, err := x.Start(context.Background(), base, Options{Origin: 1}, 0)
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "no such luck") {
		t.Fatalf("got %v", err)
	}
}

func TestACancelledStartEnds(t *testing.T) {
	x := parseOne(t, shell, nil)
	base := t.TempDir()
	if err := x.Find(context.Background(), ".", base, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := x.Start(ctx, base, Options{Origin: 1}, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if entries, _ := os.ReadDir(base); len(entries) != 0 {
		t.Errorf("%s was not removed", entries[0].Name())
	}
}

func TestARequestToABenchmarkTargetReturnsItsStatus(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	requests := make(chan string, 2)
	go func() {
		for _, response := range []string{"HTTP/1.1 418 Teapot\r\n\r\n", "what?\r\n"} {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			p := make([]byte, 1000)
			n, _ := c.Read(p)
			requests <- string(p[:n])
			io.WriteString(c, response)
			c.Close()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	status, err := Ask(port, "/x", testTimeout, "A: b")
	if err != nil || status != 418 {
		t.Fatalf("got %d, %v", status, err)
	}
	if got := <-requests; !strings.HasPrefix(got, "GET /x HTTP/1.1\r\n") || !strings.Contains(got, "\r\nA: b\r\n\r\n") {
		t.Errorf("asked %q", got)
	}
	if status, err := Ask(port, "/x", testTimeout); err == nil {
		t.Errorf("a malformed response was parsed as %d", status)
	}
}

func parseOne(t *testing.T, text string, files fstest.MapFS) *Target {
	t.Helper()
	targets, err := Parse([]byte(text), files)
	if err != nil {
		t.Fatal(err)
	}
	return targets[1]
}
