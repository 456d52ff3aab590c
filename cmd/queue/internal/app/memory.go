package app

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// memoryShare is the part of the control group's memory, in quarters, that becomes the
// Go runtime's memory limit. The rest is for socket buffers, which the kernel charges
// to the group too.
const memoryShare = 3

// followMemoryLimit derives the runtime's memory limit from memoryLimit, unless
// GOMEMLIMIT is set.
func followMemoryLimit(groups, mounted string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit(groups, mounted); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 4 * memoryShare)
	}
}

// garbage is the percentage to which boundGarbage sets GOGC. It is below Go's default of
// 100, so that the heap stays smaller. The additional collections cost little, because
// requests produce no garbage. Only new connections do.
const garbage = 50

// boundGarbage makes the garbage collector run more often than by default, unless the
// user has set GOGC.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// memoryLimit returns the lowest memory limit, in bytes, of the process's control groups
// (v1 and v2) and their ancestors; math.MaxInt64 = no limit. The parameter groups is the
// path of /proc/self/cgroup. The parameter mounted is the directory where the control
// groups are mounted.
func memoryLimit(groups, mounted string) int64 {
	named, _ := os.ReadFile(groups)
	limit := int64(math.MaxInt64)
	for line := range strings.SplitSeq(string(named), "\n") {
		_, rest, _ := strings.Cut(line, ":")
		controllers, group, found := strings.Cut(rest, ":")
		dir, file := mounted, "memory.max"
		switch {
		case !found:
			continue
		case strings.Contains(","+controllers+",", ",memory,"):
			dir, file = path.Join(mounted, "memory"), "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		// Try every ancestor, because the lowest limit applies. In a container the
		// group's path may not exist below the mount.
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			text, _ := os.ReadFile(path.Join(dir, group, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < 1<<60 {
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}

const (
	// startTime is how long the start is assumed to take. Work that would slow it down is
	// delayed by this time.
	startTime = 2 * time.Second
	// startAttempts is the maximum number of attempts to find a moment without traffic.
	startAttempts = 10
)

// releaseStartMemory returns the memory used for starting to the system. It waits for a
// moment without traffic, because the collection takes several ms of CPU.
func releaseStartMemory(busy func() bool) {
	var try func(remaining int)
	try = func(remaining int) {
		time.AfterFunc(startTime, func() {
			switch {
			case !busy():
				debug.FreeOSMemory()
			case remaining > 1:
				try(remaining - 1)
			}
		})
	}
	try(startAttempts)
}
