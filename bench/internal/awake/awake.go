// Package awake keeps the machine's processors from going idle while something
// else is measured: one thread on each that runs only where nothing else wants
// to (SCHED_IDLE, sched(7)) and does nothing, in a process of its own.
//
// A processor that halts takes its time to wake up, above all in a virtual
// machine, where the halt goes to the hypervisor. That time is then missing in
// the latencies; the interrupt that asks another processor to switch to a thread
// that was woken, and the switch itself, are not.
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

// Command is the harness's argument that runs Main.
const Command = "awake"

// ErrRefused says that the system does not let threads be what they must be so
// as not to disturb: of SCHED_IDLE, and each on a processor of its own.
var ErrRefused = errors.New("the processors cannot be kept awake")

type readyLine struct {
	Refused string `json:"refused,omitempty"`
}

// Start runs a process that keeps all processors awake that the harness may
// use, and returns when all its threads are what they shall be. It fails with
// ErrRefused where the system does not allow it.
func Start(ctx context.Context) (*child.Process, error) { return start(ctx, Command) }

func start(ctx context.Context, command string) (*child.Process, error) {
	var ready readyLine
	p, err := child.Start(ctx, command, struct{}{}, &ready)
	if err != nil {
		return nil, err
	}
	if ready.Refused != "" {
		p.Stop()
		return nil, fmt.Errorf("%w: %s", ErrRefused, ready.Refused)
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
		return pipe.Send(readyLine{Refused: err.Error()})
	}
	// Each spinning thread holds a processor of the runtime; one more is for the
	// conversation. A collection would wait for the spinning threads for ever.
	runtime.GOMAXPROCS(len(cpus) + 1)
	debug.SetGCPercent(-1)

	var over atomic.Bool
	defer over.Store(true)
	begin, set := make(chan struct{}), make(chan error, len(cpus))
	for _, cpu := range cpus {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread is of no other use
			set <- confine(cpu, policy)
			<-begin
			spin(&over)
		}()
	}
	for range cpus {
		err = errors.Join(err, <-set)
	}
	if err != nil {
		return pipe.Send(readyLine{Refused: err.Error()})
	}
	close(begin)
	if err := pipe.Send(readyLine{}); err != nil {
		return err
	}
	return pipe.AwaitEnd()
}

// processors returns the processors that this process may run on.
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

// confine binds the calling thread to a processor and gives it a scheduling
// policy. It also holds back the signal with which the runtime interrupts
// a thread that runs for more than 10 ms: the thread has nothing to be interrupted for.
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

// spin holds its processor until over; it calls nothing, so the runtime cannot
// take the processor from it.
func spin(over *atomic.Bool) {
	for !over.Load() {
	}
}
