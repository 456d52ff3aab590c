package awake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/child/childtest"
)

const testTimeout = 2 * time.Minute

// TestMain runs the helpers that the tests start. The helper with the name "refused" asks
// the kernel for scheduling policy 99. No kernel has this policy, so the kernel refuses.
func TestMain(m *testing.M) {
	childtest.Main(m, map[string]func(io.Reader, io.Writer) error{Command: Main, "refused": func(in io.Reader, out io.Writer) error { return serve(in, out, 99) }})
}

func TestEachProcessorHasAThreadOfTheLowestPriority(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	want, err := processors()
	if err != nil {
		t.Fatal(err)
	}
	var idle []int
	for _, thread := range bound(t, p.PID()) {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(thread, &set); err != nil {
			t.Fatal(err)
		}
		for _, cpu := range want {
			if set.IsSet(cpu) {
				idle = append(idle, cpu)
			}
		}
	}
	if n := len(idleThreads(t, p.PID())); n != len(want) && policyOf(t, os.Getpid(), os.Getpid()) != unix.SCHED_IDLE {
		t.Errorf("%d SCHED_IDLE threads on %d processors", n, len(want))
	}
	slices.Sort(idle)
	if !slices.Equal(idle, want) {
		t.Errorf("there are SCHED_IDLE threads on the processors %v, want one on each of %v", idle, want)
	}
}

// On a busy machine the scheduler may not run the spinning threads, so the test checks
// only that they are ready to run.
func TestThreadsThatKeepProcessorsAwakeAreAlwaysReadyToRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for ready := 0; ready < 20; ready++ {
		if states := statesOfBoundThreads(t, p.PID()); strings.Trim(states, "R") != "" {
			ready = 0 // the threads have just started, so start counting again
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("after %v the threads are in the states %q, want all R", testTimeout, statesOfBoundThreads(t, p.PID()))
		}
	}
}

// bound returns the ids of the spinning threads, which have the policy SCHED_IDLE and are
// bound to a single processor. The policy alone is not enough: if the test runs under
// SCHED_IDLE, all threads of the process inherit this policy.
func bound(t *testing.T, pid int) (all []int) {
	t.Helper()
	for _, thread := range idleThreads(t, pid) {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(thread, &set); err != nil {
			t.Fatal(err)
		}
		if set.Count() == 1 {
			all = append(all, thread)
		}
	}
	return all
}

func idleThreads(t *testing.T, pid int) (all []int) {
	t.Helper()
	for _, thread := range threads(t, pid) {
		if policyOf(t, pid, thread) == unix.SCHED_IDLE {
			all = append(all, thread)
		}
	}
	return all
}

// statesOfBoundThreads returns one state letter for each bound thread
// (proc_pid_stat(5)).
func statesOfBoundThreads(t *testing.T, pid int) string {
	t.Helper()
	states := ""
	for _, thread := range bound(t, pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		states += rest[:1]
	}
	if states == "" {
		t.Fatal("there is no SCHED_IDLE thread bound to a processor")
	}
	return states
}

func TestTheProcessExitsAtEOFOfItsInput(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], Command)
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
	if _, err := in.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "{}\n" {
		t.Errorf("first line is %q, %v", line, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("exit error: %v", err)
	}
}

func TestARejectedSchedulingPolicyIsReported(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if p, err := start(ctx, "refused"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "policy 99") {
		if err == nil {
			p.Stop()
		}
		t.Fatalf("got %v", err)
	}
}

func threads(t *testing.T, pid int) (all []int) {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(names) == 0 {
		t.Fatalf("process %d has the threads %v, %v", pid, names, err)
	}
	for _, name := range names {
		thread, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, thread)
	}
	return all
}

// policyOf reads field 41 of a thread's stat (proc_pid_stat(5)).
func policyOf(t *testing.T, pid, thread int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
	if err != nil {
		t.Fatal(err)
	}
	// The second field of the line is the thread's name in brackets. The name may contain
	// spaces, so split only the text after the last bracket. This text begins with field 3.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	policy, err := strconv.Atoi(fields[41-3])
	if err != nil {
		t.Fatal(err)
	}
	return policy
}
