package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The root file system of a pod may be read-only.
func TestTheDrainSocketNeedsNoFile(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	name := fmt.Sprintf("@queuegate-e2e-%d", freePort(t)) // as the default, but this test's own
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
		t.Errorf("the default is another:\n%s", out)
	}
}
