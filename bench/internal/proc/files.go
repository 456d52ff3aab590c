package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

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
