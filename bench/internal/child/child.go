// Package child runs the harness's binary as a helper process, such as the origin or the
// load generator, so that the kernel accounts the helper's CPU time separately. Harness
// and helper exchange lines of JSON. A helper exits at EOF of its standard input.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// grace is how long a helper may take to exit after EOF on its input.
const grace = 2 * time.Second

// A Process is a running helper. Its methods are not safe for concurrent use, except
// Stop. If Stop is called while Receive waits, Receive returns an error.
type Process struct {
	ctx    context.Context
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr strings.Builder
	stop   sync.Once
}

// Start runs this program as a new process with name as its only argument. It sends the
// value spec to the process. Then it waits for the first line of the process, and decodes
// the line into the variable that ready points to. Cancelling the context kills the
// process.
func Start(ctx context.Context, name string, spec, ready any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the harness's own program: %w", err)
	}
	p := &Process{ctx: ctx, name: name, cmd: exec.CommandContext(ctx, self, name)}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = grace
	in, err := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	if err = errors.Join(err, outErr); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.in, p.out = in, json.NewDecoder(out)
	err = p.Send(spec)
	if err != nil { // Receive reports the helper's own error
		p.in.Close()
	}
	if err = errors.Join(err, p.Receive(ready)); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// PID returns the process id of the helper.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Send writes v to the helper as a line of JSON.
func (p *Process) Send(v any) error {
	if err := json.NewEncoder(p.in).Encode(v); err != nil {
		return fmt.Errorf("writing to %s: %w", p.name, err)
	}
	return nil
}

// failure is the line with which a helper reports a failure.
type failure struct {
	Failed string `json:"failed"`
}

// Receive decodes the helper's next line into v. It returns an error if the helper called
// Pipe.Fail or has ended.
func (p *Process) Receive(v any) error {
	var line json.RawMessage
	if err := p.out.Decode(&line); err != nil {
		p.Stop()
		if err := p.ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %s: %w", p.name, err)
		}
		return fmt.Errorf("%s ended early: %s", p.name, strings.TrimSpace(p.stderr.String()))
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

// Stop ends the helper and waits for its exit. It may be called again.
func (p *Process) Stop() {
	p.stop.Do(func() {
		p.in.Close()
		timer := time.AfterFunc(grace, func() { p.cmd.Process.Kill() })
		defer timer.Stop()
		_ = p.cmd.Wait()
	})
}

// Pipe is the helper's end of the connection to the harness.
type Pipe struct {
	in  *json.Decoder
	out *json.Encoder
}

// NewPipe returns a Pipe over the standard streams of a helper.
func NewPipe(in io.Reader, out io.Writer) *Pipe {
	return &Pipe{json.NewDecoder(in), json.NewEncoder(out)}
}

// ErrEnd reports that the harness has closed the pipe.
var ErrEnd = errors.New("the harness has closed the pipe")

// Receive decodes the next line into v, or returns ErrEnd.
func (p *Pipe) Receive(v any) error {
	if err := p.in.Decode(v); errors.Is(err, io.EOF) {
		return ErrEnd
	} else if err != nil {
		return fmt.Errorf("reading from the harness: %w", err)
	}
	return nil
}

// Send writes v as a line of JSON.
func (p *Pipe) Send(v any) error {
	if err := p.out.Encode(v); err != nil {
		return fmt.Errorf("writing to the harness: %w", err)
	}
	return nil
}

// Fail reports a failure to the harness.
func (p *Pipe) Fail(cause error) error { return p.Send(failure{cause.Error()}) }

// AwaitEnd waits until the harness closes the pipe. It returns an error if the harness
// sends a line instead.
func (p *Pipe) AwaitEnd() error {
	if err := p.Receive(new(any)); !errors.Is(err, ErrEnd) {
		return fmt.Errorf("unexpected line: %w", err)
	}
	return nil
}
