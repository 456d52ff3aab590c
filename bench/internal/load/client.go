package load

import (
	"context"
	"fmt"

	"github.com/queuegate/queuegate/bench/internal/child"
)

type readyLine struct {
	Error string `json:"error,omitempty"`
}

type resultLine struct {
	Error  string  `json:"error,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// A Process is a generator that runs as a process of its own.
type Process struct {
	*child.Process
}

// Start runs a generator and returns when its connections stand, its warm-up is
// over and nothing is under way.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	var ready readyLine
	c, err := child.StartReady(ctx, Command, spec, &ready)
	if err != nil {
		return nil, err
	}
	if ready.Error != "" {
		c.Stop()
		return nil, fmt.Errorf("load: %s", ready.Error)
	}
	return &Process{Process: c}, nil
}

// Run makes the load and returns when its last answer has come.
func (p *Process) Run(ctx context.Context) (*Result, error) {
	if err := p.Send(struct{}{}); err != nil {
		return nil, err
	}
	var line resultLine
	if err := p.Receive(ctx, &line); err != nil {
		return nil, err
	}
	if line.Error != "" {
		return nil, fmt.Errorf("load: %s", line.Error)
	}
	return line.Result, nil
}
