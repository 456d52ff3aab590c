package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	cgroupMount = "/sys/fs/cgroup"
	// The name of a run's cgroups and of its directory is namePrefix, followed by the id
	// of the process that started the run.
	namePrefix = "queuegate-cluster-"
)

// cgroupRoots returns the roots of the cgroup hierarchies: one in version 2, one per
// controller in version 1.
func cgroupRoots() []string {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}
	}
	var roots []string
	entries, _ := os.ReadDir(cgroupMount)
	for _, e := range entries {
		root := filepath.Join(cgroupMount, e.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			roots = append(roots, root)
		}
	}
	return roots
}

// makeCgroups creates a cgroup, below which the kubelet creates the cgroups of pods.
func makeCgroups(name string) error {
	for _, root := range cgroupRoots() {
		group := filepath.Join(root, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// In version 1 a new cpuset is empty, and accepts no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes a run's cgroups. It retries, because the cgroup of a killed
// process stays busy for some milliseconds.
func removeCgroups(name string) {
	for range 50 {
		hasRemaining := false
		for _, root := range cgroupRoots() {
			var groups []string
			filepath.WalkDir(filepath.Join(root, name), func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					groups = append(groups, path)
				}
				return nil
			})
			for i := len(groups) - 1; i >= 0; i-- {
				hasRemaining = os.Remove(groups[i]) != nil || hasRemaining
			}
		}
		if !hasRemaining {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sweep removes the remains of earlier runs whose processes have ended. A failed run
// leaves its logs. A run that was killed leaves its cgroups and its directory.
func sweep() {
	names := map[string]bool{}
	for _, root := range append(cgroupRoots(), os.TempDir()) {
		found, _ := filepath.Glob(filepath.Join(root, namePrefix+"*"))
		for _, f := range found {
			names[filepath.Base(f)] = true
		}
	}
	for name := range names {
		pid, err := strconv.Atoi(strings.TrimPrefix(name, namePrefix))
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			removeCgroups(name)
			os.RemoveAll(filepath.Join(os.TempDir(), name))
		}
	}
}
