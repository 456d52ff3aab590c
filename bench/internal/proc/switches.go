package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

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
		dir := fmt.Sprintf("/proc/%d/task", pid)
		tasks, err := os.ReadDir(dir)
		if err != nil {
			return Switches{}, fmt.Errorf("listing threads: %w", err)
		}
		for _, task := range tasks {
			status, err := os.ReadFile(dir + "/" + task.Name() + "/status")
			if err != nil {
				continue // the thread has ended meanwhile
			}
			one, err := parseSwitches(string(status))
			if err != nil {
				return Switches{}, fmt.Errorf("reading %s/%s/status: %w", dir, task.Name(), err)
			}
			sum.Voluntary += one.Voluntary
			sum.Involuntary += one.Involuntary
		}
	}
	return sum, nil
}

func parseSwitches(status string) (Switches, error) {
	voluntary, err := numberAfter(status, "voluntary_ctxt_switches:")
	if err != nil {
		return Switches{}, err
	}
	involuntary, err := numberAfter(status, "nonvoluntary_ctxt_switches:")
	if err != nil {
		return Switches{}, err
	}
	return Switches{voluntary, involuntary}, nil
}

// numberAfter returns the number on the line that begins with a key.
func numberAfter(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, key)
		if !found {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("%s has no number", key)
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s %w", key, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("no line %s", key)
}
