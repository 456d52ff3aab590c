// Package proc measures the CPU time, context switches, system calls and memory of a
// process and its descendants, from outside the process.
package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Tree returns the ids of a process and its descendants, ascending. It returns an error
// if the process does not exist.
func Tree(root int) ([]int, error) {
	if _, err := procfs.NewProc(root); err != nil {
		return nil, fmt.Errorf("reading process %d: %w", root, err)
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	children := map[int][]int{}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil { // an error means that the process has exited
			children[stat.PPID] = append(children[stat.PPID], p.PID)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	slices.Sort(tree)
	return tree, nil
}

// CPU returns the CPU time of processes, including their exited threads. It reads CPU
// clocks (clock_getcpuclockid(3)), which count nanoseconds; /proc counts ticks of 10 ms.
func CPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		if err := unix.ClockGettime(cpuClock(pid), &ts); err != nil {
			return 0, fmt.Errorf("reading the CPU clock of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// cpuClock is MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel's
// include/linux/posix-timers_types.h.
func cpuClock(pid int) int32 { return int32(^pid)<<3 | 2 }

// Switches counts context switches: voluntary ones, when a thread waits, and preemptions.
type Switches struct {
	Voluntary, Involuntary int64
}

// Sub returns s - earlier.
func (s Switches) Sub(earlier Switches) Switches {
	return Switches{s.Voluntary - earlier.Voluntary, s.Involuntary - earlier.Involuntary}
}

// ContextSwitches adds up the switches of all threads of processes. It does not count
// threads that have exited.
func ContextSwitches(pids []int) (Switches, error) {
	var sum Switches
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return Switches{}, fmt.Errorf("listing threads: %w", err)
		}
		for _, t := range threads {
			if status, err := t.NewStatus(); err == nil { // an error means that the thread has exited
				sum.Voluntary += int64(status.VoluntaryCtxtSwitches)
				sum.Involuntary += int64(status.NonVoluntaryCtxtSwitches)
			}
		}
	}
	return sum, nil
}

// Memory is the memory of processes in bytes. RSS includes pages that are shared with
// other processes. Private is anonymous memory. It is not Private_Dirty, which includes
// pages of a recently built program that are not written to disk yet.
type Memory struct {
	RSS, Private int64
}

// MemoryOf adds up the memory of processes (smaps_rollup, proc_pid_smaps(5)).
func MemoryOf(pids []int) (Memory, error) {
	var sum Memory
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return Memory{}, fmt.Errorf("reading memory: %w", err)
		}
		rollup, err := p.ProcSMapsRollup()
		if err == nil && rollup.Rss == 0 {
			err = fmt.Errorf("process %d holds none", pid) // a zombie
		}
		if err != nil {
			return Memory{}, fmt.Errorf("reading memory: %w", err)
		}
		sum.RSS += int64(rollup.Rss)
		sum.Private += int64(rollup.Anonymous)
	}
	return sum, nil
}

// Machine describes this machine. Values that cannot be read are empty.
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

// Busy returns the busy time of all processors since boot. Waiting for disks is idle
// time. Guest time is not added, because user and nice include it (proc_stat(5)).
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

// RaiseFiles raises the limit of open files for this process and its future children. The
// new limit is the parameter want, or the highest allowed value if that is lower.
// RaiseFiles never lowers the limit, and returns the new one.
func RaiseFiles(want uint64) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	// Call setrlimit(2) even if the limit is high enough. When a Go program starts, the
	// runtime raises the limit, but only for the process itself: its child processes get
	// the original limit. After an explicit call, they get the new limit.
	var err error
	for _, most := range []uint64{max(limit.Max, want), limit.Max} {
		raised := unix.Rlimit{Cur: min(max(limit.Cur, want), most), Max: most}
		if err = unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
			return raised.Cur, nil
		}
	}
	return limit.Cur, fmt.Errorf("raising the limit of open files: %w", err)
}

// Revision returns the revision of the repository that contains dir, or "unknown".
// options are passed to git status, which detects changes.
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

// RepositoryRoot returns the nearest directory with bench/go.mod, from the current
// directory upwards.
func RepositoryRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bench", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no bench/go.mod in %s or above: run this within the repository", here)
		}
	}
}

// ErrNoCounter reports that system calls cannot be counted on this machine.
var ErrNoCounter = errors.New("counting system calls needs the kernel event raw_syscalls:sys_enter and permission to use it")

// CountSyscalls runs a function, and counts the system calls that the processes make
// until the function returns. This includes the calls of new threads and child processes.
// If the kernel event cannot be used, CountSyscalls does not call the function, and the
// error wraps ErrNoCounter.
func CountSyscalls(pids []int, during func() error) (int64, error) {
	text, err := os.ReadFile("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	event := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	event.Size = uint32(unsafe.Sizeof(event))
	var counters []int // descriptors, one per thread
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return 0, fmt.Errorf("listing threads: %w", err)
		}
		for _, t := range threads {
			fd, err := unix.PerfEventOpen(&event, t.PID, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if errors.Is(err, unix.ESRCH) {
				continue // the thread has exited
			} else if err != nil {
				return 0, fmt.Errorf("%w: perf_event_open: %w", ErrNoCounter, err)
			}
			defer unix.Close(fd)
			counters = append(counters, fd)
		}
	}
	if err := during(); err != nil {
		return 0, err
	}
	var sum int64
	for _, fd := range counters {
		var count [8]byte
		if _, err := unix.Read(fd, count[:]); err != nil {
			return 0, fmt.Errorf("reading a counter of system calls: %w", err)
		}
		sum += int64(binary.NativeEndian.Uint64(count[:]))
	}
	return sum, nil
}
