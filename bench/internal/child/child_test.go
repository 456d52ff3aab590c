package child

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/child/childtest"
)

const testTimeout = 2 * time.Minute

// TestMain runs the helpers that the tests start.
func TestMain(m *testing.M) {
	childtest.Main(m, map[string]func(io.Reader, io.Writer) error{
		"echo": func(in io.Reader, out io.Writer) error {
			pipe := NewPipe(in, out)
			for {
				var v any
				if err := pipe.Receive(&v); errors.Is(err, ErrEnd) {
					return nil
				} else if err != nil {
					return err
				}
				if err := pipe.Send(v); err != nil {
					return err
				}
			}
		},
		"fail": func(io.Reader, io.Writer) error { return errors.New("no luck today") },
	})
}

func TestAHelperProcessRespondsUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	var got string
	p, err := Start(ctx, "echo", "spec", &got)
	if err != nil || got != "spec" {
		t.Fatalf("got %q, %v", got, err)
	}
	defer p.Stop()
	for _, want := range []string{"one", "two", strings.Repeat("x", 1<<20)} {
		if err := p.Send(want); err != nil {
			t.Fatal(err)
		}
		if err := p.Receive(&got); err != nil || got != want {
			t.Fatalf("got %.20q, %v, want %.20q", got, err, want)
		}
	}
	p.Stop()
	p.Stop()
	if err := syscall.Kill(p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after Stop the process is still there: %v", err)
	}
}

func TestTheErrorOfAHelperThatEndsEarlyHasItsOutput(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if _, err := Start(ctx, "fail", nil, new(any)); err == nil || !strings.Contains(err.Error(), "no luck today") {
		t.Fatalf("got %v", err)
	}
}

func TestTheErrorOfAHelperThatFailsHasItsReason(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if _, err := Start(ctx, "echo", failure{"no such port"}, new(any)); err == nil || err.Error() != "echo: no such port" {
		t.Fatalf("got %v", err)
	}
}

func TestWaitingForAHelperEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := Start(ctx, "echo", "spec", new(any))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := p.Receive(new(any)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestStoppingAHelperProcessInterruptsReceive(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for range 10 {
		p, err := Start(ctx, "echo", "spec", new(any))
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan error, 1)
		go func() { received <- p.Receive(new(any)) }()
		p.Stop()
		if err := <-received; err == nil {
			t.Fatal("received a line that was not sent")
		}
	}
}
