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

// A Process keeps all processors awake that the harness may use.
type Process struct {
	*child.Process
}

// Start returns when all threads are what they shall be. It fails with
// ErrRefused where the system does not allow it.
func Start(ctx context.Context) (*Process, error) { return start(ctx, Command) }

func start(ctx context.Context, command string) (*Process, error) {
	var ready readyLine
	c, err := child.StartReady(ctx, command, struct{}{}, &ready)
	if err != nil {
		return nil, err
	}
	if ready.Refused != "" {
		c.Stop()
		return nil, fmt.Errorf("%w: %s", ErrRefused, ready.Refused)
	}
	return &Process{Process: c}, nil
}
