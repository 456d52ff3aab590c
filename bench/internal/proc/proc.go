// Package proc reads from the kernel what processes cost: CPU time, context
// switches, system calls and memory, for a process and all its descendants.
//
// Everything is read from outside, so the process measured does nothing for it.
package proc

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Tree returns a process and all its descendants, ascending. A process that
// does not exist gives an error.
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
		if stat, err := p.Stat(); err == nil { // else it has ended meanwhile
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

// CPU returns the CPU time of the processes, threads that have ended included.
// The source is each process's own CPU clock (clock_getcpuclockid(3)), which
// counts nanoseconds where utime and stime of /proc count ticks of 10 ms.
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

// Switches counts how often threads left the processor: because they waited
// (each such is followed by a wake-up) or because another was preferred.
type Switches struct {
	Voluntary, Involuntary int64
}

// Sub returns the switches since an earlier count.
func (s Switches) Sub(earlier Switches) Switches {
	return Switches{s.Voluntary - earlier.Voluntary, s.Involuntary - earlier.Involuntary}
}

// ContextSwitches sums over all threads of the processes. A thread that ends
// takes its count along.
func ContextSwitches(pids []int) (Switches, error) {
	var sum Switches
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return Switches{}, fmt.Errorf("listing threads: %w", err)
		}
		for _, t := range threads {
			if status, err := t.NewStatus(); err == nil { // else it has ended meanwhile
				sum.Voluntary += int64(status.VoluntaryCtxtSwitches)
				sum.Involuntary += int64(status.NonVoluntaryCtxtSwitches)
			}
		}
	}
	return sum, nil
}

// Memory is what processes hold, in bytes. RSS counts pages that they share
// with others (a program file that runs twice) in full. Private is what is not
// backed by a file: what each further instance costs. (Private_Dirty would count
// the pages of a program that was built a moment ago and is not on disk yet.)
type Memory struct {
	RSS, Private int64
}

// MemoryOf sums over the processes (smaps_rollup, proc_pid_smaps(5)).
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
