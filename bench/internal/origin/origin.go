// Package origin is the container behind the proxies. It is a fast HTTP/1.1 and h2c
// server for the requests of all scenarios. HTTP/1.1 runs on one event loop with raw
// sockets. net/http serves HTTP/2.
//
//	GET  /               12 bytes
//	GET  /bytes/N        N bytes, Content-Length
//	POST /upload         accepts any body; the response has 12 bytes
//	GET  /events?every=D server-sent events, one per D, each with its time stamp; HTTP/1 only
//	GET  /websocket      echoes messages; HTTP/1 only
//	POST /echo           HTTP/2 only: streams the request body back
//	POST /grpc/unary     HTTP/2 only: one message and trailers
//	POST /grpc/stream    HTTP/2 only: 100 messages and trailers
//
// The first three accept the query ?delay=D, which delays the response by D. More
// parameters can follow:
//
//	&slots=N   if n requests are delayed at once and n > N, the delay is D·(n/N)²
//	&spread=S  the delay is multiplied by a random factor from 1-S to 1+S
//
// GET /slots/N changes the N of all later requests that have the parameter slots. HTTP/2
// supports only ?delay=D, and only for / and /upload.
package origin

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/queuegate/queuegate/bench/internal/child"
	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

// Command is the command-line argument with which the harness runs Main.
const Command = "origin"

// Spec configures an origin.
type Spec struct {
	Ports int `json:"ports"`
	// ReserveOnly reserves the ports without listening until Process.Listen is called.
	ReserveOnly bool `json:"hold"`
}

type bound struct {
	Ports []int `json:"ports"`
}

type listening struct {
	// ListenTime is a reading of package clock, taken just after the last port began to
	// listen.
	ListenTime int64 `json:"at"`
}

// A Process is an origin in a separate process.
type Process struct {
	*child.Process
	ports []int
}

// Start runs an origin. Unless spec.ReserveOnly is set, the origin then listens.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	var b bound
	c, err := child.Start(ctx, Command, spec, &b)
	if err != nil {
		return nil, err
	}
	p := &Process{Process: c, ports: b.Ports}
	if !spec.ReserveOnly {
		if _, err := p.Listen(); err != nil {
			p.Stop()
			return nil, err
		}
	}
	return p, nil
}

// Listen makes the origin listen on all ports. It returns a reading of package clock that
// the origin took just after the last listen(2).
func (p *Process) Listen() (int64, error) {
	if err := p.Send(struct{}{}); err != nil {
		return 0, err
	}
	var l listening
	if err := p.Receive(&l); err != nil {
		return 0, err
	}
	return l.ListenTime, nil
}

// Port returns the port with this index.
func (p *Process) Port(i int) int { return p.ports[i] }

// Main is the main function of the origin's process. It serves until EOF of its input.
func Main(in io.Reader, out io.Writer) error {
	pipe := child.NewPipe(in, out)
	var spec Spec
	if err := pipe.Receive(&spec); err != nil {
		return err
	}
	if spec.Ports < 1 {
		return fmt.Errorf("origin: ports is %d, must be at least 1", spec.Ports)
	}
	// The loop waits in raw system calls, which the Go scheduler does not notice. So the
	// loop always occupies one processor of the Go runtime, and the other goroutines need
	// a second one.
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

// converse sends the ports to the harness, and waits for a message from the harness. Then
// it listens on all ports, sends the time at which it began to listen, and returns at EOF
// of the pipe.
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
	if err := pipe.Send(listening{ListenTime: at}); err != nil {
		return err
	}
	return pipe.Receive(&struct{}{})
}

// A loop serves all HTTP/1 connections of an origin on one thread.
type loop struct {
	poller  *socket.Poller
	listens map[int]bool // descriptors of the listeners
	conns   []*conn      // index = descriptor
	timers  timers
	scratch []byte
	h2      *h2
	// slots is the N of the latest GET /slots/N. All later requests that have the
	// parameter slots use it in place of their own value. 0 = none.
	slots  int
	random *rand.Rand
}

func newLoop() (*loop, error) {
	poller, err := socket.NewPoller()
	if err != nil {
		return nil, err
	}
	return &loop{
		poller:  poller,
		listens: map[int]bool{},
		scratch: make([]byte, 256<<10),
		h2:      newH2(),
		random:  rand.New(rand.NewPCG(1, 1)),
	}, nil
}

// slowness returns the factor by which overload prolongs a request. The factor is the
// square of the ratio of requests to slots, so throughput falls under overload. With
// twice as many requests as slots, each request takes four times as long, and the
// throughput is half of the maximum.
func (l *loop) slowness(slots int) float64 {
	if slots > 0 && l.slots > 0 {
		slots = l.slots
	}
	if n := len(l.timers) + 1; slots > 0 && n > slots {
		load := float64(n) / float64(slots)
		return load * load
	}
	return 1
}

// varied returns a random factor between 1-spread and 1+spread. The sequence of factors
// is the same in each run.
func (l *loop) varied(spread float64) float64 {
	if spread == 0 {
		return 1
	}
	return 1 + spread*(2*l.random.Float64()-1)
}

func (l *loop) run() error {
	runtime.LockOSThread()
	socket.SharpTimers()
	for {
		for _, e := range l.poller.Wait(l.untilTimer()) {
			fd := int(e.Fd)
			if l.listens[fd] {
				if err := l.accept(fd); err != nil {
					return err
				}
				continue
			}
			c := l.conns[fd]
			if c == nil {
				continue // closed by an earlier event of the batch
			}
			c.ready(e.Events)
		}
		l.expire()
	}
}

func (l *loop) accept(listener int) error {
	for range 64 { // accept at most 64, then serve the existing connections
		fd, err := socket.Accept(listener)
		if err != nil {
			return nil // EAGAIN, or the client has disconnected
		}
		for len(l.conns) <= fd {
			l.conns = append(l.conns, make([]*conn, len(l.conns)+64)...)
		}
		c := &conn{loop: l, fd: fd, watched: socket.Readable, timer: -1}
		l.conns[fd] = c
		if err := l.poller.Add(fd, c.watched); err != nil {
			return err
		}
	}
	return nil
}

// idleWait is the maximum wait for events if no timer is set.
const idleWait = time.Second

func (l *loop) untilTimer() time.Duration {
	if len(l.timers) == 0 {
		return idleWait
	}
	return min(idleWait, time.Duration(l.timers[0].due-clock.Now()))
}

func (l *loop) expire() {
	for len(l.timers) > 0 {
		c := l.timers[0]
		now := clock.Now()
		if c.due > now {
			return
		}
		heap.Pop(&l.timers)
		c.expired(now)
	}
}

func (l *loop) schedule(c *conn, due int64) {
	c.due = due
	if c.timer < 0 {
		heap.Push(&l.timers, c)
	} else {
		heap.Fix(&l.timers, c.timer)
	}
}

// timers is a heap of connections, ordered by due time.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due < t[j].due }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i]; t[i].timer, t[j].timer = i, j }
func (t *timers) Push(x any)        { c := x.(*conn); c.timer = len(*t); *t = append(*t, c) }
func (t *timers) Pop() any {
	old := *t
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	c.timer = -1
	return c
}
