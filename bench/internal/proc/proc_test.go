package proc

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// startShell runs a script, and returns the process id and the first line of output.
func startShell(t *testing.T, script string) (pid int, output string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // the scripts exit at EOF
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, line[:len(line)-1]
}

func TestATreeHoldsAProcessAndItsDescendants(t *testing.T) {
	root, output := startShell(t, `exec 3<&0; sh -c 'echo $$; read x' <&3 & wait`)
	child, err := strconv.Atoi(output)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(tree, root) || !slices.Contains(tree, child) || slices.Contains(tree, os.Getpid()) {
		t.Fatalf("tree of %d with child %d is %v", root, child, tree)
	}
}

func TestCPUOfAChildMatchesItsCPUClock(t *testing.T) {
	// The shell runs a loop, prints a line, and waits.
	pid, _ := startShell(t, `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read x`)
	used, err := CPU([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	counted := time.Duration(stat.CPUTime() * float64(time.Second))
	if used <= 0 || used < counted-50*time.Millisecond || used > counted+50*time.Millisecond {
		t.Fatalf("CPU() is %v, /proc/%d/stat says %v", used, pid, counted)
	}
	second, err := CPU([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if second < used {
		t.Fatalf("CPU time went back from %v to %v", used, second)
	}
}

func TestABlockingReadIsCountedAsAVoluntaryContextSwitch(t *testing.T) {
	pid, _ := startShell(t, `sleep 0.01; echo slept; read x`)
	switches, err := ContextSwitches([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if switches.Voluntary < 1 {
		t.Fatalf("a shell that waited for its child has %+v", switches)
	}
}

func TestTheMeasuredMemoryOfAChildProcessIsPlausible(t *testing.T) {
	pid, _ := startShell(t, `echo here; read x`)
	m, err := MemoryOf([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if m.RSS < 100<<10 || m.Private <= 0 || m.Private > m.RSS {
		t.Fatalf("memory of a shell is %+v", m)
	}
}

func TestMeasuringAProcessThatHasEndedIsAnError(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if _, err := Tree(pid); err == nil {
		t.Error("Tree accepted it")
	}
	if _, err := CPU([]int{pid}); err == nil {
		t.Error("CPU accepted it")
	}
	if _, err := MemoryOf([]int{pid}); err == nil {
		t.Error("MemoryOf accepted it")
	}
	if _, err := ContextSwitches([]int{pid}); err == nil {
		t.Error("ContextSwitches accepted it")
	}
}

func TestSystemCallsAreCountedOrReportedAsUncountable(t *testing.T) {
	// A child process, which starts during the count, makes five of the ten calls of
	// umask(2).
	cmd := exec.Command("/bin/sh", "-c", "read x; for i in 1 2 3 4 5; do umask 022; done; (for i in 1 2 3 4 5; do umask 022; done); echo done; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	n, err := CountSyscalls([]int{cmd.Process.Pid}, func() error {
		if _, err := in.Write([]byte("go\n")); err != nil {
			return err
		}
		_, err := bufio.NewReader(out).ReadString('\n')
		return err
	})
	if err != nil {
		if !errors.Is(err, ErrNoCounter) {
			t.Fatal(err)
		}
		return
	}
	// The shell and its child call umask(2) ten times, and write(2) at least once. So
	// there are at least 11 calls. A few more calls read the line and start the child,
	// but 100 calls would be too many.
	if n < 11 || n > 100 {
		t.Fatalf("a shell that called umask ten times made %d system calls", n)
	}
}

func TestBusyTimeIncludesTheCPUTimeOfAProcess(t *testing.T) {
	before, err := Busy()
	if err != nil {
		t.Fatal(err)
	}
	own, err := CPU([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for used := time.Duration(0); used < 50*time.Millisecond; {
		now, err := CPU([]int{os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		used = now - own
	}
	after, err := Busy()
	if err != nil {
		t.Fatal(err)
	}
	if after-before < 20*time.Millisecond {
		t.Fatalf("the machine was busy for %v while this process used 50ms", after-before)
	}
}

func TestMachineHasCoresMemoryKernelAndOS(t *testing.T) {
	m := Machine()
	if m.Cores < 1 || m.MemoryBytes < 1<<20 || m.Kernel == "" || m.OS == "" {
		t.Fatalf("machine is %+v", m)
	}
}
