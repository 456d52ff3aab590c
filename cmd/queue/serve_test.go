package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/queuegate/queuegate/cmd/queue/internal/application"
)

// fakeGate drains and closes on request, or when its context ends.
type fakeGate struct {
	handedOver      bool
	drained, closed chan struct{}
	draining        chan struct{}
	drains, reloads int
}

func newFakeGate() *fakeGate {
	return &fakeGate{drained: make(chan struct{}), closed: make(chan struct{}), draining: make(chan struct{})}
}

func (g *fakeGate) Drain()                          { g.drains++; close(g.draining) }
func (g *fakeGate) Draining() <-chan struct{}       { return g.draining }
func (g *fakeGate) Served() <-chan struct{}         { return g.drained }
func (g *fakeGate) Open() (requests, tunnels int64) { return 2, 1 }
func (g *fakeGate) HandedOver() bool                { return g.handedOver }
func (g *fakeGate) Leave()                          { close(g.drained) }
func (g *fakeGate) Reload()                         { g.reloads++ }

func (g *fakeGate) Run(ctx context.Context) error {
	select {
	case <-g.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *fakeGate) Close(context.Context) { <-g.closed }

// ending runs a process until it has ended. The keys of the parameter at are times since
// the start. At each of these times, ending calls the function with this key.
func ending(t *testing.T, at map[time.Duration]func(g *fakeGate, signals chan<- os.Signal)) (g *fakeGate, took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		g = newFakeGate()
		signals := make(chan os.Signal, 4)
		start := time.Now()
		for d, happens := range at {
			time.AfterFunc(d, func() { happens(g, signals) })
		}
		notified := 0
		p := process{gate: g, application: (*application.Process)(nil), signals: signals, log: zap.NewNop(), notify: func(string) { notified++ }}
		err = p.end()
		took = time.Since(start)
		if notified != g.drains {
			t.Errorf("notified %d times of %d drains", notified, g.drains)
		}
		select {
		case <-g.closed:
		default:
			close(g.closed)
		}
	})
	return g, took, err
}

func send(s os.Signal) func(*fakeGate, chan<- os.Signal) {
	return func(_ *fakeGate, signals chan<- os.Signal) { signals <- s }
}

func drained(g *fakeGate, _ chan<- os.Signal) { close(g.drained) }
func closed(g *fakeGate, _ chan<- os.Signal)  { close(g.closed) }

func TestTheProcessEndsWithItsDrain(t *testing.T) {
	type events = map[time.Duration]func(*fakeGate, chan<- os.Signal)
	for what, c := range map[string]struct {
		at              events
		took            time.Duration
		hurried         bool
		drains, reloads int
	}{
		"a drain and an orderly close": {
			at:   events{1 * time.Second: send(syscall.SIGTERM), 60 * time.Second: drained, 61 * time.Second: closed},
			took: 61 * time.Second, drains: 1,
		},
		"a close that hangs": {
			at:   events{1 * time.Second: send(syscall.SIGINT), 60 * time.Second: drained},
			took: 60*time.Second + closeTimeout, drains: 1,
		},
		"a second signal during the drain, and a close that hangs": {
			at:   events{1 * time.Second: send(syscall.SIGTERM), 5 * time.Second: send(syscall.SIGINT)},
			took: 5*time.Second + hurryTimeout, hurried: true, drains: 1,
		},
		"a second signal during a close that hangs": {
			at:   events{1 * time.Second: send(syscall.SIGTERM), 2 * time.Second: drained, 3 * time.Second: send(syscall.SIGTERM)},
			took: 3 * time.Second, hurried: true, drains: 1,
		},
		"a signal to the process and to its group": {
			at: events{1 * time.Second: send(syscall.SIGTERM), time.Second + repeatWindow/2: send(syscall.SIGTERM),
				2 * time.Second: drained, 3 * time.Second: closed},
			took: 3 * time.Second, drains: 1,
		},
		"two signals at once": {
			at:   events{1 * time.Second: send(syscall.SIGTERM), time.Second + repeatWindow/2: send(syscall.SIGINT)},
			took: time.Second + repeatWindow/2 + hurryTimeout, hurried: true,
		},
		"hangups": {
			at:   events{1 * time.Second: send(syscall.SIGHUP), 2 * time.Second: drained, 3 * time.Second: send(syscall.SIGHUP), 3500 * time.Millisecond: closed},
			took: 3500 * time.Millisecond, reloads: 2,
		},
		"a drain through the socket, and then the first signal": {
			at:   events{2 * time.Second: send(syscall.SIGTERM), 3 * time.Second: drained, 4 * time.Second: closed},
			took: 4 * time.Second, drains: 1,
		},
		"a first signal only when the drain is over": {
			at:   events{2 * time.Second: drained, 3 * time.Second: send(syscall.SIGTERM), 3500 * time.Millisecond: closed},
			took: 3500 * time.Millisecond, drains: 1,
		},
	} {
		t.Run(what, func(t *testing.T) {
			g, took, err := ending(t, c.at)
			if took != c.took || errors.Is(err, errSecondSignal) != c.hurried || g.drains != c.drains || g.reloads != c.reloads {
				t.Errorf("ended after %v (want %v), %v, %d drains, %d reloads", took, c.took, err, g.drains, g.reloads)
			}
		})
	}
	if hurryTimeout+hurriedLogTimeout > 800*time.Millisecond {
		t.Error("a second signal leaves too little of a second")
	}
}

// fakeApplication ends at once when it is killed. When it is asked to stop, it ends after
// the delay in its first field. If this delay is 0, it ignores the request to stop.
type fakeApplication struct {
	needs  time.Duration
	gone   chan struct{}
	killed bool
	code   int
}

func (a *fakeApplication) Code() int                    { return a.code }
func (a *fakeApplication) ExitText() string             { return "exit code 0" }
func (a *fakeApplication) IsInterrupted() bool          { return false }
func (a *fakeApplication) Exited() <-chan struct{}      { return a.gone }
func (a *fakeApplication) GroupExited() <-chan struct{} { return a.gone }
func (a *fakeApplication) Signal(os.Signal)             {}

func (a *fakeApplication) Stop(os.Signal) {
	select {
	case <-a.gone:
		return
	default:
	}
	if a.needs > 0 {
		time.AfterFunc(a.needs, func() { close(a.gone) })
	}
}

func (a *fakeApplication) KillRest() {}

func (a *fakeApplication) Kill() {
	select {
	case <-a.gone:
	default:
		a.killed = true
		close(a.gone)
	}
}

func TestEachStageOfTheEndOfAnApplicationIsLogged(t *testing.T) {
	began := "1.01s: draining: completing open requests; a second signal ends the gate immediately, 2 requests, 1 tunnels"
	asked := "1m0s: sending SIGTERM to the application, waited 58.99s, 2 requests, 1 tunnels"
	for what, c := range map[string]struct {
		timeout, needs time.Duration
		lines          []string
		took           time.Duration
		killed         bool
	}{
		"at once": {timeout: 10 * time.Second, needs: time.Second, lines: []string{began, asked}, took: 61 * time.Second},
		"slowly": {timeout: 10 * time.Second, needs: 6 * time.Second,
			lines: []string{began, asked, "1m5s: the application is still running, waited 1m3.99s, 2 requests, 1 tunnels"}, took: 66 * time.Second},
		"never": {timeout: 4 * time.Second,
			lines: []string{began, asked, "1m2s: the application is still running, waited 1m0.99s, 2 requests, 1 tunnels",
				"1m4s: the application is still running after the stop timeout (STOP_TIMEOUT): sending SIGKILL, waited 1m2.99s, 2 requests, 1 tunnels"},
			took: 64 * time.Second, killed: true},
		"after an hour, which is not limited": {needs: time.Hour,
			lines: []string{began, asked, "1m5s: the application is still running, waited 1m3.99s, 2 requests, 1 tunnels"}, took: time.Hour + time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, signals, start := newFakeGate(), make(chan os.Signal, 4), time.Now()
				close(g.closed)
				a := &fakeApplication{needs: c.needs, gone: make(chan struct{})}
				core, log := observer.New(zapcore.DebugLevel)
				p := process{gate: g, application: a, stopTimeout: c.timeout, signals: signals, log: zap.New(core), notify: func(string) {}}
				time.AfterFunc(time.Second, func() { signals <- syscall.SIGTERM })
				time.AfterFunc(time.Minute, func() { close(g.drained) })
				if err := p.end(); err != nil || time.Since(start) != c.took || a.killed != c.killed {
					t.Errorf("%v after %v, killed %v", err, time.Since(start), a.killed)
				}
				var lines []string
				for _, e := range log.All() {
					f := e.ContextMap()
					waited := ""
					if d, ok := f["waited"]; ok {
						waited = fmt.Sprintf(" waited %v,", d)
					}
					lines = append(lines, fmt.Sprintf("%v: %s,%s %v requests, %v tunnels", e.Time.Sub(start), e.Message, waited, f["requests"], f["tunnels"]))
				}
				if !slices.Equal(lines, c.lines) {
					t.Errorf("got\n%s", strings.Join(lines, "\n"))
				}
			})
		})
	}
}

func TestASignalBeforeTheTakeOverEndsTheUpgrade(t *testing.T) {
	signals := make(chan os.Signal, 4)
	p := process{signals: signals}
	signals <- syscall.SIGHUP
	if err := p.interrupted(); err != nil {
		t.Errorf("SIGHUP: %v", err)
	}
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		signals <- s
		if p.interrupted() == nil {
			t.Errorf("%v does not end the upgrade", s)
		}
	}
}
