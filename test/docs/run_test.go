package docs

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// timeout limits each block, and the start and end of each program.
const timeout = 4 * time.Minute

func shell(ctx context.Context, text string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	c.Dir, c.Env = repository, environment()
	// Programs that bash has started in the background may drain after Ctrl-C. WaitDelay
	// limits how long the test waits for them after the end of bash.
	c.WaitDelay = timeout / 8
	return c
}

// All pages share one copy of the repository.
func TestTheCommandsInTheDocumentationWork(t *testing.T) {
	all := pages(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { runPage(t, all[name]) })
	}
}

func runPage(t *testing.T, list []block) {
	var running *program
	defer func() { running.stop() }()
	for _, b := range list {
		switch {
		case b.reason != "":
			t.Logf("line %d is not run: %s", b.line, b.reason)
		case b.port != "":
			running.stop()
			running = start(t, b)
		default:
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			out, err := shell(ctx, b.text).CombinedOutput()
			cancel()
			if err != nil {
				t.Fatalf("line %d: %v\n%s\n%s", b.line, err, b.text, out)
			}
			t.Logf("line %d:\n%s", b.line, out)
		}
	}
}

// A program runs in the background, as in a second terminal.
type program struct {
	t      *testing.T
	block  block
	cmd    *exec.Cmd
	out    output
	exited chan error
}

// output can be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start waits until the program listens.
func start(t *testing.T, b block) *program {
	t.Helper()
	p := &program{t: t, block: b, exited: make(chan error, 1)}
	p.cmd = shell(context.Background(), b.text)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // a process group, as in a terminal
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+b.port); err == nil {
			_ = c.Close()
			return p
		}
		select {
		case err := <-p.exited:
			t.Fatalf("line %d: it exited: %v\n%s\n%s", b.line, err, b.text, p.out.String())
		default:
		}
	}
	p.kill()
	t.Fatalf("line %d: nothing listens on %s\n%s\n%s", b.line, b.port, b.text, p.out.String())
	return nil
}

// stop sends SIGINT to the process group, as Ctrl-C does, and repeats it every 10 s. A
// background program that bash has started ignores SIGINT until it installs its own
// handler.
func (p *program) stop() {
	if p == nil {
		return
	}
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for deadline := time.After(timeout); ; {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
		select {
		case err := <-p.exited:
			if err != nil && p.cmd.ProcessState.ExitCode() != 130 { // 130 = a shell or make whose command was interrupted
				p.t.Errorf("line %d: Ctrl-C: %v\n%s\n%s", p.block.line, err, p.block.text, p.out.String())
			}
			return
		case <-ticker.C:
		case <-deadline:
			p.kill()
			p.t.Errorf("line %d: Ctrl-C does not stop it\n%s\n%s", p.block.line, p.block.text, p.out.String())
			return
		}
	}
}

func (p *program) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
