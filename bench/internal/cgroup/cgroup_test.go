package cgroup

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

const mixed = `24 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
26 24 0:24 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
27 24 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`

func TestCgroupsAreFoundInBothVersions(t *testing.T) {
	for _, c := range []struct {
		name, mounts, cgroups string
		want                  []Location
	}{
		{"version 1, own group and root", mixed, "4:cpu,cpuacct:/user/a\n3:cpuset:/other\n0::/\n",
			[]Location{{1, "/sys/fs/cgroup/cpu,cpuacct/user/a"}, {1, "/sys/fs/cgroup/cpu,cpuacct"}, {2, "/sys/fs/cgroup/unified"}}},
		{"version 2 alone", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice/x\n",
			[]Location{{2, "/sys/fs/cgroup"}, {2, "/sys/fs/cgroup/user.slice/x"}}},
		{"a container that sees its own group as the root of the mount", "30 1 0:26 /docker/x /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n", "4:cpu:/docker/x\n",
			[]Location{{1, "/sys/fs/cgroup"}}},
		{"no control groups", "30 1 0:26 / / rw - ext4 /dev/x rw\n", "", nil},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "1"), 0o755), os.WriteFile(filepath.Join(dir, "1", "mountinfo"), []byte(c.mounts), 0o644),
			os.WriteFile(filepath.Join(dir, "1", "cgroup"), []byte(c.cgroups), 0o644)); err != nil {
			t.Fatal(err)
		}
		fs, err := procfs.NewFS(dir)
		if err != nil {
			t.Fatal(err)
		}
		p, err := fs.Proc(1)
		if err != nil {
			t.Fatal(err)
		}
		mounts, err := p.MountInfo()
		if err != nil {
			t.Fatal(err)
		}
		cgroups, err := p.Cgroups()
		if err != nil {
			t.Fatal(err)
		}
		if got := locations(mounts, cgroups); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.name, got, c.want)
		}
	}
}

func TestACPUQuotaHasTheFormatOfItsCgroupVersion(t *testing.T) {
	if got := quota(2, 100); !maps.Equal(got, map[string]string{"cpu.max": "10000 100000"}) {
		t.Errorf("version 2: %v", got)
	}
	if got := quota(1, 250); !maps.Equal(got, map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "25000"}) {
		t.Errorf("version 1: %v", got)
	}
}

func TestThrottlingStatisticsAreReadInBothCgroupVersions(t *testing.T) {
	want := Stat{Periods: 40, Throttled: 3, ThrottledTime: 5 * time.Millisecond}
	for _, text := range []string{
		"nr_periods 40\nnr_throttled 3\nthrottled_time 5000000\nwait_sum 1\n",
		"usage_usec 1\nnr_periods 40\nnr_throttled 3\nthrottled_usec 5000\n",
	} {
		got, err := parseStat(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if d := (Stat{5, 4, 3}).Sub(Stat{1, 1, 1}); d != (Stat{4, 3, 2}) {
		t.Errorf("difference is %+v", d)
	}
	for _, text := range []string{"", "nr_periods 40\nnr_throttled 3\n", "nr_periods x\nnr_throttled 3\nthrottled_usec 5\n"} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("%q was accepted as %+v", text, got)
		}
	}
}

func TestACreatedCgroupHasItsQuotaAndTheAddedProcess(t *testing.T) {
	// A directory stands in for the cgroup version 2 file system.
	dir := t.TempDir()
	g, err := (Location{2, dir}).Create("x", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(42); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.max": "10000 100000", "cgroup.procs": "42"} {
		name := filepath.Join(dir, "x", file)
		os.Chmod(name, 0o600)
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v", file, text, err)
		}
	}
	if _, err := (Location{2, dir}).Create("y", 5); err == nil {
		t.Error("a quota below the kernel's minimum was accepted")
	}
	if _, err := (Location{2, filepath.Join(dir, "none")}).Create("z", 100); err == nil {
		t.Error("a group was created in a directory that does not exist")
	}
}

func TestARealGroupThrottlesABusyProcessOrReportsWhyItCannot(t *testing.T) {
	location, err := Find()
	if err != nil {
		if !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		return
	}
	g, err := location.Create(fmt.Sprintf("queuegate-bench-test-%d", os.Getpid()), 20)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	cmd.Stdin = &lateInput{added: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		cmd.Process.Kill()
		t.Fatal(err)
	}
	close(cmd.Stdin.(*lateInput).added)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s, err := g.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if s.Periods < 1 || s.Throttled < 1 || s.ThrottledTime <= 0 {
		t.Errorf("a busy process with 20m was throttled %+v", s)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Stat(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("after Remove: %v", err)
	}
}

// lateInput is the standard input of a process that waits for a line before it works.
// The line comes only after the process was added to its control group, so that the
// group limits all of the work.
type lateInput struct {
	added  chan struct{}
	isRead bool
}

func (l *lateInput) Read(p []byte) (int, error) {
	<-l.added
	if l.isRead {
		return 0, io.EOF
	}
	l.isRead = true
	return copy(p, "go\n"), nil
}
