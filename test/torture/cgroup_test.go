package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryGroup is a control group with a memory limit, in version 1 or 2.
type memoryGroup struct {
	dir         string
	usage, peak string // files with the current and the highest memory use
}

// newMemoryGroup creates a control group with a memory limit in bytes. It returns an
// error if that is not possible, for example without permission.
func newMemoryGroup(t *testing.T, limit int64) (*memoryGroup, error) {
	t.Helper()
	name := fmt.Sprintf("torture-%d-%d", os.Getpid(), time.Now().UnixNano())
	var last error
	for _, v := range []struct{ root, limit, usage, peak string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup", "memory.max", "memory.current", "memory.peak"},
	} {
		if _, err := os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil {
			last = err
			continue
		}
		g := &memoryGroup{dir: filepath.Join(v.root, name), usage: v.usage, peak: v.peak}
		if last = os.Mkdir(g.dir, 0o755); last != nil {
			continue
		}
		if last = os.WriteFile(filepath.Join(g.dir, v.limit), []byte(strconv.FormatInt(limit, 10)), 0o644); last != nil {
			_ = os.Remove(g.dir)
			continue
		}
		t.Cleanup(func() {
			if !eventually(func() bool { return os.Remove(g.dir) == nil }) {
				t.Errorf("cannot remove the control group %s", g.dir)
			}
		})
		return g, nil
	}
	return nil, fmt.Errorf("no control group for memory: %w", last)
}

// mebibytes reads a number of bytes from a file of the group, and returns it in MiB. It
// returns 0 if the file does not exist.
func (g *memoryGroup) mebibytes(file string) float64 {
	text, _ := os.ReadFile(filepath.Join(g.dir, file))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return float64(n) / (1 << 20)
}
