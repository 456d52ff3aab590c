package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The root file system of a pod may be read-only. An abstract socket needs no file.
func TestQueueDrainWorksOverAnAbstractSocket(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	name := fmt.Sprintf("@queuegate-e2e-%d", freePort(t)) // an abstract socket with a name that no other test uses
	g := startGate(t, k, "DRAIN_SOCKET="+name)
	g.mayEnd = true
	if code, _, stderr := runQueue(t, baseEnv(t), "drain", "--drain-socket", name); code != 0 {
		t.Fatalf("queue drain: code %d, %s", code, stderr)
	}
	if code := g.exitCode(); code != 0 {
		t.Errorf("the gate ended with code %d", code)
	}
}

func TestTheDefaultDrainSocketIsAbstract(t *testing.T) {
	t.Parallel()
	_, out, _ := runQueue(t, []string{"PATH=" + os.Getenv("PATH")}, "--check")
	if !strings.Contains(out, "DRAIN_SOCKET=@queuegate") {
		t.Errorf("the default is not the abstract socket:\n%s", out)
	}
}

func TestQueueDrainDoesNotWaitForAGateThatHangs(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	g.signal(syscall.SIGSTOP)
	code, _, stderr := runQueue(t, g.env, "drain")
	g.signal(syscall.SIGCONT)
	if code != 1 || !strings.Contains(stderr, "the gate sent nothing") || !strings.Contains(stderr, g.socket) {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	// The connection of `queue drain` is still in the backlog of the drain socket. After
	// SIGCONT the gate accepts the connection, and begins a drain.
	g.mayEnd = true
}

func TestTheDrainSocketSurvivesAShortageOfDescriptors(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	g.mayEnd = true
	var before unix.Rlimit
	must(t, unix.Prlimit(g.Cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &before))
	must(t, unix.Prlimit(g.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: before.Max}, nil))
	asking := startProcess(t, g.env, queueBinary, "drain")
	eventually(t, "queue drain waits in the backlog", func() bool {
		list, err := os.ReadFile("/proc/net/unix")
		must(t, err)
		return strings.Count(string(list), g.socket) > 1
	})
	must(t, unix.Prlimit(g.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &before, nil))
	if code := asking.exitCode(); code != 0 {
		t.Errorf("queue drain ended with code %d; stderr:\n%s", code, asking.Stderr.String())
	}
	g.ends(0)
}
