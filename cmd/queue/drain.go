package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"go.uber.org/zap"
)

// drain waits for the end to be asked for and sees it through. A second
// signal cuts it short. It returns the exit code.
func (p *process) drain(signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	finished := make(chan error, 1)
	go func() {
		<-p.gate.Drain.Quiet()
		p.secure.close()
		finished <- p.shutdown(ctx)
	}()
	for {
		select {
		case <-p.gate.Drain.Started():
			p.log.Info("draining")
			return p.await(finished, signals)
		case s := <-signals:
			if s == syscall.SIGHUP {
				p.secure.reload()
			} else {
				p.gate.Drain.Start()
			}
		}
	}
}

func (p *process) await(finished <-chan error, signals <-chan os.Signal) int {
	for {
		select {
		case err := <-finished:
			if err != nil {
				p.log.Warn("the drain was cut short", zap.Error(err))
				return exitFailed
			}
			return exitOK
		case s := <-signals:
			if s != syscall.SIGHUP {
				p.log.Warn("second signal: not waiting any longer")
				return exitFailed
			}
			p.secure.reload()
		}
	}
}

// shutdown ends both engines at the same time: each sees the other's requests
// as open.
func (p *process) shutdown(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		err := p.streams.Shutdown(ctx)
		p.server.Departed()
		ended <- err
	}()
	return errors.Join(p.server.Shutdown(ctx), <-ended)
}
