package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat, 1/USER_HZ.
const tick = 10 * time.Millisecond

// Busy returns the time for which the machine's processors were not idle, all
// together, since its start; waiting for disks counts as idle (proc_stat(5)).
func Busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("reading processor times: %w", err)
	}
	return parseBusy(string(text))
}

func parseBusy(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var sum time.Duration
	for i, field := range fields[1:9] { // guest times are part of the first two
		const idle, ioWait = 3, 4
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat begins with %q", line)
		}
		if i != idle && i != ioWait {
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}
