package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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
	var s Stat
	seen := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var into *int64
		scale := int64(1)
		var held int64
		switch name {
		case "nr_periods":
			into = &s.Periods
		case "nr_throttled":
			into = &s.Throttled
		case "throttled_time": // version 1, nanoseconds
			into = &held
		case "throttled_usec": // version 2
			into, scale = &held, 1000
		default:
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return Stat{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = n * scale
		if into == &held {
			s.Held = time.Duration(held)
		}
		seen++
	}
	if seen < 3 {
		return Stat{}, errors.New("nr_periods, nr_throttled and the throttled time are not all there")
	}
	return s, nil
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
