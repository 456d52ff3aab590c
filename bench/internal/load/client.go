package load

import (
	"context"

	"github.com/queuegate/queuegate/bench/internal/child"
)

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
	c, err := child.StartReady(ctx, Command, spec, &struct{}{})
	if err != nil {
		return nil, err
	}
	return &Process{Process: c}, nil
}

// Run makes the load and returns when its last answer has come.
func (p *Process) Run(ctx context.Context) (*Result, error) {
	if err := p.Send(struct{}{}); err != nil {
		return nil, err
	}
	result := new(Result)
	if err := p.Receive(ctx, result); err != nil {
		return nil, err
	}
	return result, nil
}
