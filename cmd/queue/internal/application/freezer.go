package application

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Freezer is a control group (cgroups(7)) for the application, to freeze its processes
// together. It is a child of the gate's group. Thaw and Close may be called on nil.
type Freezer struct {
	dir  string // the application's group
	gate string // the gate's group
	*freezerVersion
}

// freezerVersion describes how one version of control groups freezes processes.
type freezerVersion struct {
	file           string // control file
	frozen, thawed string
}

var (
	freezerV2 = &freezerVersion{"cgroup.freeze", "1", "0"}
	freezerV1 = &freezerVersion{"freezer.state", "FROZEN", "THAWED"}
)

// groupPrefix plus the gate's PID is the name of the application's group.
const groupPrefix = "queuegate-"

// groupMembers is the name of the file that lists the processes of a group. A process
// that writes 0 to the file moves into the group.
const groupMembers = "cgroup.procs"

// NewFreezer creates the group, in version 2 of control groups if possible. groups and
// mounts are the paths of /proc/self/cgroup and /proc/self/mountinfo.
func NewFreezer(groups, mounts string) (*Freezer, error) {
	own, err := os.ReadFile(groups)
	if err != nil {
		return nil, err
	}
	mounted, err := os.ReadFile(mounts)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, v := range []*freezerVersion{freezerV2, freezerV1} {
		gate := groupDir(string(own), string(mounted), v)
		if gate == "" {
			continue
		}
		thawStaleGroups(gate, v)
		f := &Freezer{filepath.Join(gate, groupPrefix+strconv.Itoa(os.Getpid())), gate, v}
		if err := f.create(); err == nil {
			return f, nil
		} else {
			errs = append(errs, err)
		}
	}
	if errs == nil {
		return nil, errors.New("no cgroup file system with a freezer is mounted")
	}
	return nil, errors.Join(errs...)
}

// create creates the group. The group may exist already, because a killed gate with the
// same PID may have left it.
func (f *Freezer) create() error {
	if err := os.Mkdir(f.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Check that both groups can be written to, because the method fork needs this.
	for _, member := range []string{f.gate, f.dir} {
		file, err := os.OpenFile(filepath.Join(member, groupMembers), os.O_WRONLY, 0)
		if err != nil {
			_ = os.Remove(f.dir)
			return err
		}
		file.Close()
	}
	if err := f.Thaw(); err != nil {
		_ = os.Remove(f.dir)
		return err
	}
	return nil
}

// Freeze freezes the processes of the group. It does not wait until they are frozen.
func (f *Freezer) Freeze() error { return writeGroup(f.dir, f.file, f.frozen) }

// Thaw reverses Freeze.
func (f *Freezer) Thaw() error {
	if f == nil {
		return nil
	}
	return writeGroup(f.dir, f.file, f.thawed)
}

// Close removes the group if its processes have ended.
func (f *Freezer) Close() {
	if f != nil {
		_ = os.Remove(f.dir)
	}
}

// fork calls start while the gate is in the group, so that the child inherits it.
// CLONE_INTO_CGROUP is not permitted in many containers.
func (f *Freezer) fork(start func() (pid int, err error)) (pid int, err error) {
	if f == nil {
		return start()
	}
	if err := writeGroup(f.dir, groupMembers, "0"); err != nil {
		return 0, fmt.Errorf("moving to the application's cgroup: %w", err)
	}
	pid, err = start()
	if back := writeGroup(f.gate, groupMembers, "0"); back != nil && err == nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return 0, fmt.Errorf("leaving the application's cgroup: %w", back)
	}
	return pid, err
}

// writeGroup writes to an existing file of a group.
func writeGroup(dir, name, value string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// thawStaleGroups thaws the groups of killed gates, so that their processes handle
// pending signals, and removes empty groups.
func thawStaleGroups(gate string, v *freezerVersion) {
	dirs, _ := filepath.Glob(filepath.Join(gate, groupPrefix+"*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), groupPrefix))
		if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		_ = writeGroup(dir, v.file, v.thawed)
		_ = os.Remove(dir)
	}
}

// groupDir returns the directory of the control group that a process is in. The result
// is "" if the version v of control groups is not mounted. The parameters groups and
// mounts are the contents of the process's /proc/PID/cgroup and /proc/PID/mountinfo.
func groupDir(groups, mounts string, v *freezerVersion) string {
	for mount := range strings.SplitSeq(mounts, "\n") {
		before, after, _ := strings.Cut(mount, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after) // proc(5)
		if len(fields) < 5 || len(kind) < 3 || (v == freezerV2) != (kind[0] == "cgroup2") {
			continue
		}
		if v == freezerV1 && (kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), "freezer")) {
			continue
		}
		root, point := fields[3], fields[4]
		for line := range strings.SplitSeq(groups, "\n") {
			_, rest, _ := strings.Cut(line, ":")
			controllers, group, found := strings.Cut(rest, ":")
			if !found || (v == freezerV2) != (controllers == "") ||
				v == freezerV1 && !slices.Contains(strings.Split(controllers, ","), "freezer") {
				continue
			}
			// Without a cgroup namespace, a container's mount shows only the group of the
			// container. The full path of this group is in mountinfo, and the path in
			// /proc/PID/cgroup begins with it. Cut this prefix to get the path below the
			// mount.
			if below, ok := strings.CutPrefix(group, root); ok && (below == "" || below[0] == '/' || root == "/") {
				group = below
			}
			return path.Join(point, group)
		}
	}
	return ""
}
