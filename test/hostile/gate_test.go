package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

const (
	// hangTime is the time after which something counts as hanging.
	hangTime = time.Minute
	// closeTime is the maximum time from a response to the close.
	closeTime = 20 * time.Second
	// pauseTime lets a peer read. No finding depends on it.
	pauseTime = 2 * time.Millisecond
	// requestTimeoutSeconds is the gate's request timeout. It is far below hangTime, so
	// that a request that times out gets a 504 and is not a hang.
	requestTimeoutSeconds = 10
)

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

var gateBinary = sync.OnceValues(func() (string, error) { return launch.GateBinary(scratch) })

// target is a proxy with a container behind it.
type target struct {
	address   string
	container *container
	gate      *launch.Gate  // nil if the test did not start the proxy
	timeout   time.Duration // time after which an exchange counts as hanging
}

// startGate runs the real binary in front of a new container.
func startGate() (*target, error) {
	binary, err := gateBinary()
	if err != nil {
		return nil, err
	}
	c, err := newContainer("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g, err := launch.StartGate(launch.Options{
		Binary: binary, UserPort: c.port(), Settings: []string{"REVISION_TIMEOUT_SECONDS=" + strconv.Itoa(requestTimeoutSeconds)}, Timeout: 2 * hangTime,
	})
	if err != nil {
		c.listener.Close()
		return nil, err
	}
	return &target{address: g.Addr("QUEUE_SERVING_PORT"), container: c, gate: g, timeout: hangTime}, nil
}

// runningTarget returns the proxy named by QUEUEGATE_HOSTILE_TARGET, or nil.
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

func (t *target) alive() bool { return t.gate == nil || t.gate.Running() }

// stop ends the gate and its container. It returns an error if the gate has printed a
// race, a panic or a broken invariant.
func (t *target) stop() error {
	defer t.container.listener.Close()
	if t.gate == nil {
		return nil
	}
	_ = t.gate.Cmd.Process.Signal(syscall.SIGTERM)
	t.gate.EndsIn(hangTime)
	t.gate.End()
	if fault := t.gate.Fault(); fault != "" {
		_, rest, _ := strings.Cut(t.gate.Stderr.String(), fault)
		return fmt.Errorf("the gate printed %s%.4000s", fault, rest)
	}
	return nil
}
