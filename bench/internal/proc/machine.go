package proc

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Machine describes what the harness runs on; what cannot be read stays empty.
func Machine() sample.Machine {
	m := sample.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = valueOf(string(text), "model name", ":")
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kib, err := numberAfter(string(text), "MemTotal:"); err == nil {
			m.MemoryBytes = kib << 10
		}
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		if name := valueOf(string(text), "PRETTY_NAME", "="); name != "" {
			m.OS = strings.Trim(name, `"`)
		}
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err == nil {
		m.Kernel = unix.ByteSliceToString(uname.Release[:])
	}
	return m
}

// valueOf returns what follows the separator on the first line of a key.
func valueOf(text, key, separator string) string {
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
