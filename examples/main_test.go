package examples

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin is the directory with the gate, its demo and the examples.
var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	var err error
	if bin, err = os.MkdirTemp("", "queuegate-examples-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	for dir, packages := range map[string]string{".": "./...", "..": "./cmd/..."} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", bin+"/", packages)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("building %s: %w\n%s", packages, err, out)
		}
	}
	return m.Run(), nil
}

type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	ended chan struct{}
}

// start runs a program until the test ends, and collects its output.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(bin, name), args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		_ = out.Close()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.said())
		}
	})
	return p
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await waits until the output matches a pattern, and returns the first group.
func (p *process) await(pattern string) string {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		ended := false
		select {
		case <-p.ended:
			ended = true
		default:
		}
		if m := want.FindStringSubmatch(p.said()); m != nil {
			return m[1]
		}
		if ended {
			p.t.Fatalf("it exited without printing %q", pattern)
		}
	}
	p.t.Fatalf("it did not print %q", pattern)
	return ""
}

// end sends SIGTERM, and fails unless the exit code is 0.
func (p *process) end() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatal("it does not exit")
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

func ask(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func get(t *testing.T, url string, fields ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	return ask(t, request)
}
