package app

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
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
