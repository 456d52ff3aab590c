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

// memoryShare is the part of the control group's memory, in quarters, that the
// Go runtime may use before it collects more often. The rest is for socket
// buffers, which the kernel charges to the group too: with 1,500 clients that
// do not read, they take 9 to 16 MiB in addition to the runtime's 14 MiB.
const memoryShare = 3

// followMemoryLimit makes the runtime's memory limit follow that of the control groups,
// unless GOMEMLIMIT is set. The arguments are those of memoryLimit.
func followMemoryLimit(groups, mounted string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit(groups, mounted); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 4 * memoryShare)
	}
}

// garbage is the value of GOGC: the heap may grow by this percentage between two
// collections. With Go's default of 100, the gate would use twice the memory it needs
// if many clients constantly connect and disconnect. Requests produce no garbage.
const garbage = 50

// boundGarbage applies garbage, unless GOGC is set.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// memoryLimit returns the lowest limit of the control groups of a process, given the
// file that lists them and their mount point; math.MaxInt64 if there is none. It reads
// both versions of control groups (cgroups(7)).
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
		// In a container the process's own group may be mounted as the root, so its path
		// may not exist below the mount. Try every ancestor; the lowest limit applies.
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
	// startTime is the time after which the start is assumed to be complete and its
	// allocations to be garbage.
	startTime = 2 * time.Second
	// startTries is the maximum number of attempts to find a moment without traffic. A
	// gate with constant traffic reuses the memory anyway.
	startTries = 10
)

// releaseStartMemory returns the memory used for starting to the system: an idle gate
// produces so little garbage that no collection would happen for a while. Under traffic
// it waits for a quiet moment, because the collection takes several ms of CPU.
func releaseStartMemory(busy func() bool) {
	var try func(left int)
	try = func(left int) {
		time.AfterFunc(startTime, func() {
			switch {
			case !busy():
				debug.FreeOSMemory()
			case left > 1:
				try(left - 1)
			}
		})
	}
	try(startTries)
}
