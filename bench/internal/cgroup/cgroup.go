// Package cgroup limits the CPU of processes through control groups, version 1 or 2, and
// reports how often the processes were throttled.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// ErrUnavailable reports that no CPU controller can be used.
var ErrUnavailable = errors.New("no CPU controller of control groups is writable")

// A Location is a group in which groups with a CPU limit can be created.
type Location struct {
	// Version is 1 or 2.
	Version int
	// Path is the directory in which new groups are created.
	Path string
}

// Find returns a place where groups can be created. If there is none, the error wraps
// ErrUnavailable and lists the tried locations.
func Find() (Location, error) {
	mounts, err := procfs.GetMounts()
	self, selfErr := procfs.Self()
	cgroups, ownErr := self.Cgroups()
	if err := errors.Join(err, selfErr, ownErr); err != nil {
		return Location{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var tried []error
	for _, p := range locations(mounts, cgroups) {
		if err := p.usable(); err != nil {
			tried = append(tried, fmt.Errorf("%s (version %d): %w", p.Path, p.Version, err))
			continue
		}
		return p, nil
	}
	return Location{}, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(tried...))
}

// locations returns the groups in which a group may be created: the root of each mounted
// hierarchy and this process's own group. In version 2 the root comes first, because only
// the root may both contain processes and delegate the controller.
func locations(mounts []*procfs.MountInfo, cgroups []procfs.Cgroup) (found []Location) {
	add := func(version int, mount *procfs.MountInfo, group string) {
		below, ok := strings.CutPrefix(group, mount.Root) // a mount shows only the part below mount.Root
		if !ok {
			below = ""
		}
		p := Location{version, filepath.Join(mount.MountPoint, below)}
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	pathOf := func(controller string) string {
		i := slices.IndexFunc(cgroups, func(g procfs.Cgroup) bool {
			return slices.Contains(g.Controllers, controller) || controller == "" && g.HierarchyID == 0
		})
		if i < 0 {
			return ""
		}
		return cgroups[i].Path
	}
	for _, m := range mounts {
		if _, cpu := m.SuperOptions["cpu"]; m.FSType == "cgroup2" {
			add(2, m, m.Root)
			add(2, m, pathOf(""))
		} else if cpu && m.FSType == "cgroup" {
			add(1, m, pathOf("cpu"))
			add(1, m, m.Root)
		}
	}
	return found
}

func (p Location) usable() error {
	if p.Version == 2 {
		if err := p.enableBelow(); err != nil {
			return err
		}
	}
	g, err := p.Create("queuegate-bench-trial", 1000)
	if err != nil {
		return err
	}
	return g.Remove()
}

// enableBelow enables the CPU controller for the children of p.
func (p Location) enableBelow() error {
	has := func(file string) bool {
		text, err := os.ReadFile(filepath.Join(p.Path, file))
		return err == nil && slices.Contains(strings.Fields(string(text)), "cpu")
	}
	switch {
	case has("cgroup.subtree_control"):
		return nil
	case !has("cgroup.controllers"):
		return errors.New("the controller cpu is missing")
	}
	if err := os.WriteFile(filepath.Join(p.Path, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return fmt.Errorf("delegating the controller cpu: %w", err)
	}
	return nil
}

// period is the period of the CPU quota, the same as in Kubernetes.
const period = 100 * time.Millisecond

// A Group is a control group with a CPU quota.
type Group struct {
	version int
	path    string
}

// Create creates a group with a CPU limit in thousandths of a core.
func (p Location) Create(name string, millis int) (*Group, error) {
	if millis < 10 {
		return nil, fmt.Errorf("creating a control group: quota is %dm, the kernel's minimum is 10m", millis)
	}
	g := &Group{version: p.Version, path: filepath.Join(p.Path, name)}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating a control group: %w", err)
	}
	for file, value := range quota(p.Version, millis) {
		if err := os.WriteFile(filepath.Join(g.path, file), []byte(value), 0); err != nil {
			_ = g.Remove()
			return nil, fmt.Errorf("setting a CPU quota of %dm: %w", millis, err)
		}
	}
	return g, nil
}

// quota returns the contents of the control files, keyed by file name. Version 2 has
// cpu.max (cgroup-v2.rst of the kernel), version 1 the cfs files (sched-bwc.rst).
func quota(version, millis int) map[string]string {
	per := period.Microseconds()
	limit := strconv.FormatInt(per*int64(millis)/1000, 10)
	periodText := strconv.FormatInt(per, 10)
	if version == 2 {
		return map[string]string{"cpu.max": limit + " " + periodText}
	}
	return map[string]string{"cpu.cfs_period_us": periodText, "cpu.cfs_quota_us": limit}
}

// Add moves a process into the group.
func (g *Group) Add(pid int) error {
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("moving process %d into a control group: %w", pid, err)
	}
	return nil
}

// Stat has the counters of a group: the periods in which the group ran, the periods in
// which it was throttled, and the total time for which its threads were throttled.
type Stat struct {
	Periods, Throttled int64
	ThrottledTime      time.Duration
}

// Sub returns s - earlier.
func (s Stat) Sub(earlier Stat) Stat {
	return Stat{s.Periods - earlier.Periods, s.Throttled - earlier.Throttled, s.ThrottledTime - earlier.ThrottledTime}
}

// Stat reads the group's counters.
func (g *Group) Stat() (Stat, error) {
	text, err := os.ReadFile(filepath.Join(g.path, "cpu.stat"))
	if err != nil {
		return Stat{}, fmt.Errorf("reading a control group: %w", err)
	}
	s, err := parseStat(string(text))
	if err != nil {
		return Stat{}, fmt.Errorf("reading %s/cpu.stat: %w", g.path, err)
	}
	return s, nil
}

func parseStat(text string) (Stat, error) {
	values := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return Stat{}, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = n
	}
	throttled1, nanoseconds := values["throttled_time"] // version 1
	micros, microseconds := values["throttled_usec"]
	periods, counted := values["nr_periods"]
	throttled, felt := values["nr_throttled"]
	if !counted || !felt || nanoseconds == microseconds {
		return Stat{}, errors.New("nr_periods, nr_throttled or the throttled time is missing")
	}
	return Stat{periods, throttled, time.Duration(throttled1 + 1000*micros)}, nil
}

// Remove removes the group, whose processes must have ended. Remove retries, because the
// kernel may take a moment to release the processes.
func (g *Group) Remove() error {
	var err error
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err = syscall.Rmdir(g.path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
	}
	return fmt.Errorf("removing control group %s: %w", g.path, err)
}
