package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// hangTime is how long anything may take before it counts as a hang.
	hangTime = 5 * time.Second
	// closeTime is how long a close may take behind an answer.
	closeTime = 2 * time.Second
	// pauseTime lets a peer read what was written so far; no verdict rests on it.
	pauseTime = 2 * time.Millisecond
	// requestClockSeconds is the gate's, well below hangTime.
	requestClockSeconds = 3
)

// scratch is a directory for the binary and the sockets of this run.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildGate builds the real binary once.
var buildGate = sync.OnceValues(func() (string, error) {
	if err := lookAtSources("../../cmd", "../../pkg"); err != nil {
		return "", err
	}
	binary := filepath.Join(scratch, "queue")
	args := []string{"build", "-o", binary}
	if os.Getenv("QUEUEGATE_RACE") == "1" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../../cmd/queue")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gate: %w\n%s", err, out)
	}
	return binary, nil
})

// lookAtSources opens what the gate is built from: go test does not see what a
// build that it starts depends on, and would repeat a cached result.
func lookAtSources(roots ...string) error {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// target is a proxy under test with the container behind it.
type target struct {
	address   string
	container *container
	gate      *gateProcess  // nil if the proxy was not started here
	timeout   time.Duration // longer than this is a hang
}

// gateProcess is a running queue binary.
type gateProcess struct {
	command *exec.Cmd
	output  lockedBuffer
	exited  chan struct{}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startGate runs the real binary in front of a container of its own.
func startGate(name string) (*target, error) {
	binary, err := buildGate()
	if err != nil {
		return nil, err
	}
	c, err := newContainer("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	t := &target{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), container: c, timeout: hangTime}
	t.gate = &gateProcess{command: exec.Command(binary), exited: make(chan struct{})}
	t.gate.command.Env = append(os.Environ(),
		"USER_PORT="+strconv.Itoa(c.port()),
		"QUEUE_SERVING_PORT="+strconv.Itoa(port),
		"QUEUE_SERVING_TLS_PORT=0", "ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0", "STATUS_PORT=0", "PROFILING_PORT=0",
		"DRAIN_SOCKET="+filepath.Join(scratch, name+".sock"),
		"DRAIN_QUIET_SECONDS=0", "SERVING_READINESS_PROBE=none",
		"REVISION_TIMEOUT_SECONDS="+strconv.Itoa(requestClockSeconds),
	)
	// A suite that is killed or panics takes its gates with it.
	t.gate.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.gate.command.Stdout = &t.gate.output
	t.gate.command.Stderr = &t.gate.output
	if err := t.gate.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		t.gate.command.Wait()
		close(t.gate.exited)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*hangTime)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", t.address)
		if err == nil {
			conn.Close()
			return t, nil
		}
		select {
		case <-t.gate.exited:
			return nil, fmt.Errorf("the gate did not start:\n%s", t.gate.output.String())
		case <-ctx.Done():
			t.stop()
			return nil, fmt.Errorf("the gate does not listen: %w\n%s", err, t.gate.output.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// runningTarget is the proxy named by QUEUEGATE_HOSTILE_TARGET, or nil.
func runningTarget() (*target, error) {
	address := os.Getenv("QUEUEGATE_HOSTILE_TARGET")
	if address == "" {
		return nil, nil
	}
	c, err := newContainer("127.0.0.1:" + os.Getenv("QUEUEGATE_HOSTILE_CONTAINER_PORT"))
	if err != nil {
		return nil, err
	}
	return &target{address: address, container: c, timeout: hangTime}, nil
}

// alive tells whether the process under test still runs.
func (t *target) alive() bool {
	if t.gate == nil {
		return true
	}
	select {
	case <-t.gate.exited:
		return false
	default:
		return true
	}
}

// stop ends the gate and the container's listener, and returns what the gate
// printed of races, panics and broken invariants.
func (t *target) stop() error {
	defer t.container.listener.Close()
	if t.gate == nil {
		return nil
	}
	t.gate.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-t.gate.exited:
	case <-time.After(hangTime):
		t.gate.command.Process.Kill()
		<-t.gate.exited
	}
	var faults []error
	out := t.gate.output.String()
	for _, sign := range []string{"DATA RACE", "panic:", "BUG:", "fatal error:"} {
		if i := strings.Index(out, sign); i >= 0 {
			faults = append(faults, fmt.Errorf("the gate printed %.4000s", out[max(0, i-100):]))
		}
	}
	return errors.Join(faults...)
}
