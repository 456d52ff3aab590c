package application

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

func processes() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// descendants returns the PIDs of all living descendants of the process pid, in any
// order. It finds them by the parent PIDs in /proc/PID/stat (proc(5)). If /proc cannot be
// read, it returns none.
func descendants(pid int) []int {
	children := map[int][]int{}
	ended := map[int]bool{}
	for _, child := range processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // it has exited
		}
		// The line contains the name of the process in parentheses, and then the state
		// and the PID of the parent. The name itself may contain parentheses.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		children[parent] = append(children[parent], child)
		ended[child] = fields[0][0] == 'Z' || fields[0][0] == 'X'
	}
	var found []int
	for below := children[pid]; len(below) > 0; below = below[1:] {
		if !ended[below[0]] {
			found = append(found, below[0])
		}
		below = append(below, children[below[0]]...)
	}
	return found
}
