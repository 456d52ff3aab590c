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
// Go runtime may take before it collects more often. The rest is for the buffers
// of sockets, which the kernel charges to the group too: with 1,500 clients that
// do not read, 9 to 16 MiB beside 14 MiB of the runtime's own.
const memoryShare = 3

// followMemoryLimit makes the runtime's memory limit follow that of the control
// groups. GOMEMLIMIT, the user's own choice, wins. The arguments are memoryLimit's.
func followMemoryLimit(groups, mounted string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit(groups, mounted); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 4 * memoryShare)
	}
}

// garbage is what may be there, in percent of what is in use, before the runtime
// collects. At Go's 100 a crowd of clients that come and go all the time has the
// gate hold twice what it needs; requests themselves leave none.
const garbage = 50

// boundGarbage applies that. GOGC, the user's own choice, wins.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// memoryLimit is the least limit of the groups that a process is in, from the
// file that names them and where they are mounted; math.MaxInt64 if there is
// none. Both versions of control groups are read (cgroups(7)).
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
		// In a container of its own the mount may begin at the group itself.
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
	// startTime is when the start is over, and with it what it allocated.
	startTime = 2 * time.Second
	// startTries is how often a gate with traffic is asked again: what is busy
	// finds use for the memory before long.
	startTries = 10
)

// releaseStartMemory gives the memory that starting has needed back to the system: an
// idle gate makes so little garbage that no collection would come for a while.
// Where there is traffic it waits for a quiet moment, since the collection
// takes some ms of CPU.
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
