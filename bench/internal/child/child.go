// Package child runs the harness's own program again as a helper process (the
// origin, the load), so that the kernel tells their CPU time apart, and speaks
// with it in lines of JSON.
//
// A helper ends when its standard input does: whatever happens to the harness,
// none stays behind.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// grace is how long a helper may take to end by itself.
const grace = 2 * time.Second

// A Process is a running helper. Its methods belong to one goroutine.
type Process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte
	stderr strings.Builder
}

// Start runs this program with name as its only argument and sends it spec.
func Start(name string, spec any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the harness's own program: %w", err)
	}
	p := &Process{name: name, cmd: exec.Command(self, name), lines: make(chan []byte, 16)}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = grace
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go p.readLines(out)
	if err := p.Send(spec); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// StartReady is Start, and waits for the helper's first line.
func StartReady(ctx context.Context, name string, spec, ready any) (*Process, error) {
	p, err := Start(name, spec)
	if err != nil {
		return nil, err
	}
	if err := p.Receive(ctx, ready); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Process) readLines(out io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		p.lines <- append([]byte(nil), scanner.Bytes()...)
	}
}

// PID returns the helper's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Send writes a line to the helper.
func (p *Process) Send(v any) error { return send(p.in, p.name, v) }

func send(to io.Writer, name string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a line for %s: %w", name, err)
	}
	if _, err := to.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing to %s: %w", name, err)
	}
	return nil
}

// failure is the line of a helper that could not do what it was to do.
type failure struct {
	Failed string `json:"failed"`
}

// Receive waits for the helper's next line. Pipe.Fail gives an error, and so does
// a helper that has ended, with what it said last.
func (p *Process) Receive(ctx context.Context, v any) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", p.name, ctx.Err())
	case line, open := <-p.lines:
		if !open {
			p.Stop()
			said := strings.TrimSpace(p.stderr.String())
			return fmt.Errorf("%s ended early: %s", p.name, said)
		}
		var failed failure
		if json.Unmarshal(line, &failed) == nil && failed.Failed != "" {
			return fmt.Errorf("%s: %s", p.name, failed.Failed)
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("reading from %s: %w: %q", p.name, err, line)
		}
		return nil
	}
}

// Stop ends the helper and waits until it is gone. It may be called again.
func (p *Process) Stop() {
	p.in.Close()
	timer := time.AfterFunc(grace, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

// Pipe is the helper's side of the conversation.
type Pipe struct {
	in  *bufio.Scanner
	out io.Writer
}

// NewPipe speaks over the standard streams of a helper.
func NewPipe(in io.Reader, out io.Writer) *Pipe {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 4<<20)
	return &Pipe{in: scanner, out: out}
}

// ErrEnd says that the harness has closed the conversation.
var ErrEnd = errors.New("the harness has gone")

// Receive reads the next line, or returns ErrEnd.
func (p *Pipe) Receive(v any) error {
	if !p.in.Scan() {
		if err := p.in.Err(); err != nil {
			return fmt.Errorf("reading from the harness: %w", err)
		}
		return ErrEnd
	}
	if err := json.Unmarshal(p.in.Bytes(), v); err != nil {
		return fmt.Errorf("reading from the harness: %w", err)
	}
	return nil
}

// Send writes a line.
func (p *Pipe) Send(v any) error { return send(p.out, "the harness", v) }

// Fail writes that the helper cannot do what it was to do.
func (p *Pipe) Fail(why error) error { return p.Send(failure{why.Error()}) }

// AwaitEnd waits for the harness to close the conversation; a line is an error.
func (p *Pipe) AwaitEnd() error {
	if err := p.Receive(new(any)); !errors.Is(err, ErrEnd) {
		return fmt.Errorf("unexpected line: %w", err)
	}
	return nil
}
