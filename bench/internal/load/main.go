package load

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/debug"

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
	c, err := child.Start(ctx, Command, spec, &struct{}{})
	if err != nil {
		return nil, err
	}
	return &Process{Process: c}, nil
}

// Run makes the load and returns when its last answer has come.
func (p *Process) Run() (*Result, error) {
	if err := p.Send(struct{}{}); err != nil {
		return nil, err
	}
	result := new(Result)
	if err := p.Receive(result); err != nil {
		return nil, err
	}
	return result, nil
}

// Main is the generator's process: one load, from its input to its output.
func Main(in io.Reader, out io.Writer) error {
	pipe := child.NewPipe(in, out)
	var spec Spec
	if err := pipe.Receive(&spec); err != nil {
		return err
	}
	if err := spec.check(); err != nil {
		return err
	}
	threads := cmp.Or(spec.Threads, max(1, runtime.NumCPU()/4))
	threads = min(threads, spec.Connections, cmp.Or(spec.UnderWay, spec.Connections))
	// Each loop holds a processor even while it waits; one more is for the
	// conversation. Nothing is allocated per request, so nothing is collected.
	runtime.GOMAXPROCS(threads + 1)
	debug.SetGCPercent(-1)

	workers := make([]*worker, threads)
	begin, done := make(chan struct{}), make(chan error, threads)
	for i := range workers {
		w, err := newWorker(&spec, i, threads)
		if err != nil {
			return pipe.Fail(err)
		}
		workers[i] = w
		go w.serve(begin, done)
	}
	all := func() (err error) {
		for range workers {
			err = errors.Join(err, <-done)
		}
		return err
	}
	if err := all(); err != nil {
		return pipe.Fail(err)
	}
	if err := pipe.Send(struct{}{}); err != nil {
		return err
	}
	if err := pipe.Receive(&struct{}{}); err != nil {
		if errors.Is(err, child.ErrEnd) {
			return nil
		}
		return err
	}
	close(begin)
	if err := all(); err != nil {
		return pipe.Fail(err)
	}
	if err := pipe.Send(merge(&spec, workers)); err != nil {
		return err
	}
	return pipe.AwaitEnd() // connections stay until the harness has read what it wants to know
}
