package kubernetes

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The namespaces of all tests admit only restricted pods. This test checks in /proc that
// the gate's process is not root, has no capabilities, has a seccomp filter and cannot
// write to its root file system.
func TestTheGateRunsWithoutPrivilegesOnAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one).apply(t, namespace)
	process := cluster.ProcessOf(t, cluster.Pods(t, namespace)[0], "queue")
	status := map[string]string{}
	for line := range strings.Lines(readFile(t, fmt.Sprintf("/proc/%d/status", process))) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	for name, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "NoNewPrivs": "1", "Seccomp": "2", // 2 = filter
		"CapInh": strings.Repeat("0", 16), "CapPrm": strings.Repeat("0", 16), "CapEff": strings.Repeat("0", 16),
		"CapBnd": strings.Repeat("0", 16), "CapAmb": strings.Repeat("0", 16),
	} {
		if status[name] != want {
			t.Errorf("%s is %q, want %q", name, status[name], want)
		}
	}
	var root syscall.Statfs_t
	if err := syscall.Statfs(fmt.Sprintf("/proc/%d/root", process), &root); err != nil || root.Flags&syscall.MS_RDONLY == 0 {
		t.Errorf("the root file system is writable: flags %#x, %v", root.Flags, err)
	}
}
