// Package awake keeps the processors from going idle during measurements. A separate
// process runs one spinning thread per processor with SCHED_IDLE (sched(7)), so the
// threads run only if no other thread is ready.
//
// A halted processor takes time to wake up, especially in a virtual machine. With this
// package, measured latencies exclude that time.
package awake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/child"
)

// Command is the command-line argument with which the harness runs Main.
const Command = "awake"

// ErrRefused reports that the system does not allow SCHED_IDLE or binding threads to
// processors.
var ErrRefused = errors.New("the processors cannot be kept awake")

type readyLine struct {
	RefusedReason string `json:"refused,omitempty"`
}

// Start runs a process that keeps all processors of the harness awake. It returns after
// the threads are configured. The error wraps ErrRefused if the system rejects the
// configuration.
func Start(ctx context.Context) (*child.Process, error) { return start(ctx, Command) }

func start(ctx context.Context, command string) (*child.Process, error) {
	var ready readyLine
	p, err := child.Start(ctx, command, struct{}{}, &ready)
	if err != nil {
		return nil, err
	}
	if ready.RefusedReason != "" {
		p.Stop()
		return nil, fmt.Errorf("%w: %s", ErrRefused, ready.RefusedReason)
	}
	return p, nil
}

// Main is the main function of the spinning process. It returns at EOF of its input.
func Main(in io.Reader, out io.Writer) error { return serve(in, out, unix.SCHED_IDLE) }

func serve(in io.Reader, out io.Writer, policy uint32) error {
	pipe := child.NewPipe(in, out)
	if err := pipe.Receive(&struct{}{}); err != nil {
		return err
	}
	cpus, err := processors()
	if err != nil {
		return pipe.Send(readyLine{RefusedReason: err.Error()})
	}
	// Each spinning thread occupies a processor of the Go runtime, and the thread that
	// serves the pipe needs one more. A garbage collection would wait for the spinning
	// threads forever.
	runtime.GOMAXPROCS(len(cpus) + 1)
	debug.SetGCPercent(-1)

	var stopped atomic.Bool
	defer stopped.Store(true)
	begin, set := make(chan struct{}), make(chan error, len(cpus))
	for _, cpu := range cpus {
		go func() {
			runtime.LockOSThread() // never unlock, so that the runtime does not reuse the thread
			set <- confine(cpu, policy)
			<-begin
			spin(&stopped)
		}()
	}
	for range cpus {
		err = errors.Join(err, <-set)
	}
	if err != nil {
		return pipe.Send(readyLine{RefusedReason: err.Error()})
	}
	close(begin)
	if err := pipe.Send(readyLine{}); err != nil {
		return err
	}
	return pipe.AwaitEnd()
}

func processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the processors of this process: %w", err)
	}
	cpus := make([]int, 0, set.Count())
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// confine binds the calling thread to a processor, sets its scheduling policy, and blocks
// the signal with which the runtime preempts threads.
func confine(cpu int, policy uint32) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding a thread to processor %d: %w", cpu, err)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: policy}, 0); err != nil {
		return fmt.Errorf("setting scheduling policy %d: %w", policy, err)
	}
	var signals unix.Sigset_t
	signals.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &signals, nil); err != nil {
		return fmt.Errorf("holding back a signal: %w", err)
	}
	return nil
}

// spin keeps its processor busy until stopped is set. It calls no function, so the runtime
// cannot preempt it.
func spin(stopped *atomic.Bool) {
	for !stopped.Load() {
	}
}
