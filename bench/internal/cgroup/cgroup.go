// Package cgroup limits the CPU of processes through the kernel's control
// groups, version 1 and 2, and says how often the limit was felt.
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
)

// ErrUnavailable says that no CPU controller can be used here.
var ErrUnavailable = errors.New("no CPU controller of control groups is writable")

// A Place is where groups with a CPU limit can be made.
type Place struct {
	// Version is 1 or 2.
	Version int
	// Path is the directory of the group in which new ones are made.
	Path string
}

// Find returns a place where groups can be made. The error of a machine that
// has none wraps ErrUnavailable and says what was tried.
func Find() (Place, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Place{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Place{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var tried []error
	for _, p := range places(string(mounts), string(own)) {
		if err := p.usable(); err != nil {
			tried = append(tried, fmt.Errorf("%s (version %d): %w", p.Path, p.Version, err))
			continue
		}
		return p, nil
	}
	return Place{}, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(tried...))
}

// places returns candidates: below this process's own group, and at the root of
// the hierarchy. Of version 2 only the root may hold processes and hand the
// controller on, so it comes first there.
func places(mountinfo, own string) []Place {
	paths := map[string]string{} // of this process's groups, by controller; "" is version 2
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			paths[controller] = parts[2]
		}
	}
	var found []Place
	add := func(version int, mount string, elements ...string) {
		p := Place{version, filepath.Join(append([]string{mount}, elements...)...)}
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	for line := range strings.Lines(mountinfo) {
		// proc_pid_mountinfo(5): the fourth field is the root within the file
		// system, the fifth the mount point; the type comes after " - ".
		left, right, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		root, mount := fields[3], fields[4]
		switch {
		case kind[0] == "cgroup2":
			add(2, mount)
			add(2, mount, within(root, paths[""]))
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "cpu"):
			add(1, mount, within(root, paths["cpu"]))
			add(1, mount)
		}
	}
	return found
}

// within is a group's path below a mount that shows the hierarchy from root on.
func within(root, path string) string {
	rest, ok := strings.CutPrefix(path, root)
	if !ok {
		return ""
	}
	return rest
}

// usable makes a group and removes it again.
func (p Place) usable() error {
	if p.Version == 2 {
		if err := p.handOn(); err != nil {
			return err
		}
	}
	g, err := p.Create("queuegate-bench-trial", 1000)
	if err != nil {
		return err
	}
	return g.Remove()
}

// handOn makes the CPU controller available to groups below.
func (p Place) handOn() error {
	has := func(file string) bool {
		text, err := os.ReadFile(filepath.Join(p.Path, file))
		return err == nil && slices.Contains(strings.Fields(string(text)), "cpu")
	}
	switch {
	case has("cgroup.subtree_control"):
		return nil
	case !has("cgroup.controllers"):
		return errors.New("the controller cpu is not there")
	}
	if err := os.WriteFile(filepath.Join(p.Path, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return fmt.Errorf("handing on the controller cpu: %w", err)
	}
	return nil
}

// period is that of Kubernetes, over which a quota is counted.
const period = 100 * time.Millisecond

// A Group is a control group with a CPU quota.
type Group struct {
	version int
	path    string
}

// Create makes a group that may use so many thousandths of a core.
func (p Place) Create(name string, millis int) (*Group, error) {
	if millis < 10 {
		return nil, fmt.Errorf("making a control group: quota is %dm, the kernel's least is 10m", millis)
	}
	g := &Group{version: p.Version, path: filepath.Join(p.Path, name)}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	for _, setting := range quota(p.Version, millis) {
		if err := os.WriteFile(filepath.Join(g.path, setting.file), []byte(setting.value), 0); err != nil {
			_ = g.Remove()
			return nil, fmt.Errorf("setting a CPU quota of %dm: %w", millis, err)
		}
	}
	return g, nil
}

type setting struct{ file, value string }

// quota returns what to write where: cpu.max of version 2, the cfs files of
// version 1 (the kernel's cgroup-v2.rst and sched-bwc.rst).
func quota(version, millis int) []setting {
	per := period.Microseconds()
	limit := strconv.FormatInt(per*int64(millis)/1000, 10)
	whole := strconv.FormatInt(per, 10)
	if version == 2 {
		return []setting{{"cpu.max", limit + " " + whole}}
	}
	return []setting{{"cpu.cfs_period_us", whole}, {"cpu.cfs_quota_us", limit}}
}

// Add moves a process into the group, with all its threads.
func (g *Group) Add(pid int) error {
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("moving process %d into a control group: %w", pid, err)
	}
	return nil
}

// Stat says how often the quota was felt: in how many periods of those in which
// the group wanted to run, and for how long its threads were held.
type Stat struct {
	Periods, Throttled int64
	Held               time.Duration
}

// Sub returns what happened since an earlier Stat.
func (s Stat) Sub(earlier Stat) Stat {
	return Stat{s.Periods - earlier.Periods, s.Throttled - earlier.Throttled, s.Held - earlier.Held}
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
	held, nanoseconds := values["throttled_time"] // version 1
	micros, microseconds := values["throttled_usec"]
	periods, counted := values["nr_periods"]
	throttled, felt := values["nr_throttled"]
	if !counted || !felt || nanoseconds == microseconds {
		return Stat{}, errors.New("nr_periods, nr_throttled and the throttled time are not all there")
	}
	return Stat{periods, throttled, time.Duration(held + 1000*micros)}, nil
}

// Remove removes the group. Its processes must have ended; the kernel may need
// a moment to let go of them.
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
