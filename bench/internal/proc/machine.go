package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Machine describes what the harness runs on; what cannot be read stays empty.
func Machine() sample.Machine {
	m := sample.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			m.CPU = cpus[0].ModelName
		}
		if memory, err := fs.Meminfo(); err == nil && memory.MemTotalBytes != nil {
			m.MemoryBytes = int64(*memory.MemTotalBytes)
		}
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, found := strings.CutPrefix(line, "PRETTY_NAME="); found {
				m.OS = strings.Trim(strings.TrimSpace(name), `"`)
			}
		}
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err == nil {
		m.Kernel = unix.ByteSliceToString(uname.Release[:])
	}
	return m
}

// Busy returns the time for which the machine's processors were not idle, all
// together, since its start; waiting for disks counts as idle, and guests' time
// is part of the first two (proc_stat(5)).
func Busy() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("reading processor times: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading processor times: %w", err)
	}
	t := stat.CPUTotal
	return time.Duration((t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal) * float64(time.Second)), nil
}

// RaiseFiles raises the limit of open files of this process, and so of those it
// starts, to want, or as far as it may; it returns the limit in force.
func RaiseFiles(want uint64) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	// Set even where it is high enough: the Go runtime hands the limit that it
	// found at its own start to children unless the program has set one.
	raised := unix.Rlimit{Cur: max(limit.Cur, want), Max: max(limit.Max, want)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
		return raised.Cur, nil
	}
	raised = unix.Rlimit{Cur: min(max(limit.Cur, want), limit.Max), Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		return limit.Cur, fmt.Errorf("raising the limit of open files: %w", err)
	}
	return raised.Cur, nil
}

// Revision is that of the tree around a directory, "unknown" outside of a
// repository. Options are of git status, which says whether it was changed.
func Revision(dir string, options ...string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changes, err := git(append([]string{"status", "--porcelain"}, options...)...); err != nil || changes != "" {
		revision += "+dirty"
	}
	return revision
}

// ModuleRoot is the directory of go.mod, here or above.
func ModuleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	if file := strings.TrimSpace(string(out)); file != "" && file != os.DevNull {
		return filepath.Dir(file), nil
	}
	return "", errors.New("no go.mod here or above: run this within the repository")
}
