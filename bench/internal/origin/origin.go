// Package origin is the container behind the proxies: a fast HTTP/1.1 and h2c
// server for everything that the scenarios ask for. One event loop, raw
// sockets; only HTTP/2 is net/http's.
//
//	GET  /               12 bytes
//	GET  /bytes/N        N bytes, Content-Length
//	POST /upload         takes any body, answers 12 bytes
//	GET  /events?every=D server-sent events, one each D, each with its stamp; HTTP/1 only
//	GET  /websocket      echoes messages
//	POST /echo           HTTP/2 only: sends back what comes, as it comes
//	POST /grpc/unary     HTTP/2 only: one message and trailers
//	POST /grpc/stream    HTTP/2 only: 100 messages and trailers
//
// Any of the first three takes ?delay=D: the answer comes that much later; with
// &slots=N longer if more than N are under way, with &spread=S by up to that
// share shorter or longer. GET /slots/N replaces the N of all.
package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/queuegate/queuegate/bench/internal/child"
	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

// Command is the harness's argument that runs Main.
const Command = "origin"

// Spec says what the origin shall be.
type Spec struct {
	// Ports is how many ports it serves.
	Ports int `json:"ports"`
	// Hold reserves the ports and refuses connections until Listen.
	Hold bool `json:"hold"`
}

type bound struct {
	Ports []int `json:"ports"`
}

type listening struct {
	// At is when the last port began to accept, by package clock.
	At int64 `json:"at"`
}

// A Process is an origin that runs as a process of its own.
type Process struct {
	*child.Process
	ports []int
}

// Start runs an origin. Unless spec.Hold it listens when Start returns.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	var b bound
	c, err := child.Start(ctx, Command, spec, &b)
	if err != nil {
		return nil, err
	}
	p := &Process{Process: c, ports: b.Ports}
	if !spec.Hold {
		if _, err := p.Listen(); err != nil {
			p.Stop()
			return nil, err
		}
	}
	return p, nil
}

// Listen makes all ports accept, and returns when that was, by package clock.
func (p *Process) Listen() (int64, error) {
	if err := p.Send(struct{}{}); err != nil {
		return 0, err
	}
	var l listening
	if err := p.Receive(&l); err != nil {
		return 0, err
	}
	return l.At, nil
}

// Port returns a port, counted from 0.
func (p *Process) Port(i int) int { return p.ports[i] }

// Main is the origin's process: it serves until its input ends.
func Main(in io.Reader, out io.Writer) error {
	pipe := child.NewPipe(in, out)
	var spec Spec
	if err := pipe.Receive(&spec); err != nil {
		return err
	}
	if spec.Ports < 1 {
		return fmt.Errorf("origin: ports is %d, must be at least 1", spec.Ports)
	}
	// The loop holds one processor even while it waits.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	l, err := newLoop()
	if err != nil {
		return err
	}
	var b bound
	for range spec.Ports {
		fd, port, err := socket.Bind(0)
		if err != nil {
			return err
		}
		l.listens[fd] = true
		b.Ports = append(b.Ports, port)
	}
	failed := make(chan error, 2)
	go func() { failed <- l.run() }()
	go func() { failed <- converse(pipe, l, b) }()
	if err := <-failed; !errors.Is(err, child.ErrEnd) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// converse tells the harness the ports and listens when it says so, until it
// goes.
func converse(pipe *child.Pipe, l *loop, b bound) error {
	if err := pipe.Send(b); err != nil {
		return err
	}
	if err := pipe.Receive(&struct{}{}); err != nil {
		return err
	}
	for fd := range l.listens {
		if err := socket.Listen(fd); err != nil {
			return err
		}
	}
	at := clock.Now()
	for fd := range l.listens {
		if err := l.poller.Add(fd, socket.Readable); err != nil {
			return err
		}
	}
	if err := pipe.Send(listening{At: at}); err != nil {
		return err
	}
	return pipe.Receive(&struct{}{})
}
