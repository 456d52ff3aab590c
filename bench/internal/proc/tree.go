package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Tree returns a process and all its descendants, ascending. A process that
// does not exist gives an error.
func Tree(root int) ([]int, error) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", root)); err != nil {
		return nil, fmt.Errorf("reading process %d: %w", root, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended meanwhile
		}
		parent, err := parentOf(string(stat))
		if err != nil {
			return nil, fmt.Errorf("reading process %d: %w", pid, err)
		}
		children[parent] = append(children[parent], pid)
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	slices.Sort(tree)
	return tree, nil
}

// parentOf takes the fourth field of /proc/PID/stat (proc_pid_stat(5)). The
// second is the program's name, which may hold spaces and brackets.
func parentOf(stat string) (int, error) {
	_, rest, found := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return 0, fmt.Errorf("stat line %q has no parent", stat)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0, fmt.Errorf("stat line %q: parent: %w", stat, err)
	}
	return parent, nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
