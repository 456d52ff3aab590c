package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ProcessOf returns the id of the process of a program in a pod.
func ProcessOf(t *testing.T, pod corev1.Pod, program string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || filepath.Base(target) != program {
			continue
		}
		group, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cgroup"))
		if strings.Contains(string(group), string(pod.UID)) {
			process, _ := strconv.Atoi(strings.Split(link, "/")[2])
			return process
		}
	}
	t.Fatalf("no process %s of pod %s", program, pod.Name)
	return 0
}

// WaitEnded waits until a process has closed all its files: it is gone, or it is a zombie
// without other threads.
func WaitEnded(process int) {
	directory := fmt.Sprintf("/proc/%d", process)
	for {
		content, err := os.ReadFile(directory + "/stat")
		_, rest, _ := strings.Cut(string(content), ") ")
		threads, _ := os.ReadDir(directory + "/task")
		if err != nil || len(threads) <= 1 && (strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ResidentMemory returns the resident memory of a process in bytes.
func ResidentMemory(t *testing.T, process int) int64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", process))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(content))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// CPUTime returns the CPU time of a process, to within 10 ms.
func CPUTime(t *testing.T, process int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), ") ") // the name may contain spaces
	var ticks int64
	for _, field := range strings.Fields(rest)[11:13] { // utime and stime (proc(5))
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
