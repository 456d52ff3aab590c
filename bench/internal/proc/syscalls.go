package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ErrNoCounter says that system calls cannot be counted from outside here.
var ErrNoCounter = errors.New("counting system calls needs the kernel's event raw_syscalls:sys_enter, and the right to it")

// CountSyscalls counts the system calls that the processes enter, in all their
// threads and those that these start, while the function runs. Without the
// kernel's event or the right to it the function does not run, and the error
// wraps ErrNoCounter.
func CountSyscalls(pids []int, during func() error) (int64, error) {
	text, err := os.ReadFile("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	event := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	event.Size = uint32(unsafe.Sizeof(event))
	var counters []int // one for each thread
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return 0, fmt.Errorf("listing threads: %w", err)
		}
		for _, t := range threads {
			fd, err := unix.PerfEventOpen(&event, t.PID, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if errors.Is(err, unix.ESRCH) {
				continue // it has ended meanwhile
			} else if err != nil {
				return 0, fmt.Errorf("%w: perf_event_open: %w", ErrNoCounter, err)
			}
			defer unix.Close(fd)
			counters = append(counters, fd)
		}
	}
	if err := during(); err != nil {
		return 0, err
	}
	var sum int64
	for _, fd := range counters {
		var count [8]byte
		if _, err := unix.Read(fd, count[:]); err != nil {
			return 0, fmt.Errorf("reading a counter of system calls: %w", err)
		}
		sum += int64(binary.NativeEndian.Uint64(count[:]))
	}
	return sum, nil
}
