// Package cgroup limits the CPU of processes through the kernel's control
// groups, version 1 and 2, and says how often the limit was felt.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
