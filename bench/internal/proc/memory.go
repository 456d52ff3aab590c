package proc

import (
	"fmt"
	"os"
)

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
		name := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
		text, err := os.ReadFile(name)
		if err != nil {
			return Memory{}, fmt.Errorf("reading memory: %w", err)
		}
		one, err := parseRollup(string(text))
		if err != nil {
			return Memory{}, fmt.Errorf("reading %s: %w", name, err)
		}
		sum.RSS += one.RSS
		sum.Private += one.Private
	}
	return sum, nil
}

func parseRollup(text string) (Memory, error) {
	var kib [2]int64
	for i, key := range []string{"Rss:", "Anonymous:"} {
		n, err := numberAfter(text, key)
		if err != nil {
			return Memory{}, err
		}
		kib[i] = n
	}
	return Memory{RSS: kib[0] << 10, Private: kib[1] << 10}, nil
}
