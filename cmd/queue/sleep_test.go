package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// fakeIdle is idle while no request is open.
type fakeIdle struct {
	wanted chan struct{}

	mu        sync.Mutex
	open      int
	isAsleep  bool
	suspended int
}

func (i *fakeIdle) Suspend(idle time.Duration) (time.Duration, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open > 0 {
		return idle, false
	}
	select {
	case <-i.wanted:
	default:
	}
	i.suspended++
	i.isAsleep = true
	return 0, true
}

func (i *fakeIdle) Wanted() <-chan struct{} { return i.wanted }
func (i *fakeIdle) Slept() time.Duration    { return 0 }

func (i *fakeIdle) Open() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.open
}

func (i *fakeIdle) Resume() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.isAsleep {
		panic("resumed although it is awake")
	}
	i.isAsleep = false
}

// end ends a request.
func (i *fakeIdle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open--
}

// request begins a request.
func (i *fakeIdle) request() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open++
	if i.isAsleep {
		select {
		case i.wanted <- struct{}{}:
		default:
		}
	}
}

func TestAnIdleApplicationSleepsUntilARequestNeedsIt(t *testing.T) {
	type world struct {
		gate    *fakeGate
		idle    *fakeIdle
		signals chan os.Signal
	}
	type events = map[time.Duration]func(world)
	sigterm := func(w world) {
		w.signals <- syscall.SIGTERM
		time.AfterFunc(time.Second, func() { close(w.gate.drained) })
	}
	begin := func(w world) { w.idle.request() }
	end := func(w world) { w.idle.end() }
	for name, c := range map[string]struct {
		at       events
		needs    time.Duration // time from SIGTERM to the end of the application
		startErr error
		starts   int
		killed   int
		code     int
		state    sleepState
		lines    []string
	}{
		"it gets no signal while a request is open": {
			at: events{time.Second: begin, 2 * time.Minute: sigterm}, needs: time.Second, code: 0, state: stateAwake,
		},
		"it ends when it is idle, and the gate with code 0": {
			at: events{2 * time.Minute: sigterm}, needs: time.Second, code: 0, state: stateAsleep,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m1s: the application is asleep until a request needs it: exit code 0"},
		},
		"many requests start it once": {
			at:    events{90 * time.Second: func(w world) { begin(w); begin(w); begin(w) }, 2 * time.Minute: sigterm},
			needs: time.Second, starts: 1, state: stateAwake,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m1s: the application is asleep until a request needs it: exit code 0",
				"1m30s: the application has started for a request"},
		},
		"a request that begins while it ends starts it when it has ended": {
			at:    events{61 * time.Second: begin, 62 * time.Second: begin, 2 * time.Minute: sigterm},
			needs: 4 * time.Second, starts: 1, state: stateAwake,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m4s: the application is asleep until a request needs it: exit code 0",
				"1m4s: the application has started for a request"},
		},
		"it is killed after the stop timeout": {
			at: events{2 * time.Minute: sigterm}, killed: 1, state: stateAsleep,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m5s: the application is still running",
				"1m10s: the application is still running after the stop timeout (STOP_TIMEOUT): sending SIGKILL",
				"1m10s: the application is asleep until a request needs it: exit code 0"},
		},
		"it sleeps again after a request": {
			at:    events{90 * time.Second: begin, 95 * time.Second: end, 5 * time.Minute: sigterm},
			needs: time.Second, starts: 1, state: stateAsleep,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m1s: the application is asleep until a request needs it: exit code 0",
				"1m30s: the application has started for a request",
				"2m30s: the application is idle: sending SIGTERM", "2m31s: the application is asleep until a request needs it: exit code 0"},
		},
		"a start that fails ends the gate": {
			at:       events{90 * time.Second: func(w world) { begin(w); time.AfterFunc(time.Second, func() { end(w) }) }},
			startErr: os.ErrNotExist, needs: time.Second, code: 127, state: stateResuming,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m1s: the application is asleep until a request needs it: exit code 0",
				"1m30s: the application cannot be resumed"},
		},
		"a drain while it ends does not ask again": {
			at: events{61 * time.Second: sigterm}, needs: 4 * time.Second, state: stateAsleep,
			lines: []string{"1m0s: the application is idle: sending SIGTERM", "1m4s: the application is asleep until a request needs it: exit code 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world{newFakeGate(), &fakeIdle{wanted: make(chan struct{}, 1)}, make(chan os.Signal, 4)}
				close(w.gate.closed)
				core, log := observer.New(zapcore.InfoLevel)
				var applications []*fakeApplication
				next := func() *fakeApplication {
					a := &fakeApplication{needs: c.needs, gone: make(chan struct{})}
					applications = append(applications, a)
					return a
				}
				p := process{gate: w.gate, application: next(), stopTimeout: 10 * time.Second, signals: w.signals, log: zap.New(core), notify: func(string) {}}
				p.sleep = sleeper{idle: w.idle, idleTimeout: time.Minute, mode: &stopMode{restart: func() (runningApplication, int, error) {
					if c.startErr != nil {
						return nil, 0, c.startErr
					}
					return next(), 1, nil
				}}}
				start := time.Now()
				for at, f := range c.at {
					time.AfterFunc(at, func() { f(w) })
				}
				p.sleep.begin()
				if err := p.end(); err != nil {
					t.Fatal(err)
				}
				killed := 0
				for _, a := range applications {
					if a.killed {
						killed++
					}
				}
				if len(applications) != c.starts+1 || killed != c.killed || p.code() != c.code || p.sleep.state != c.state {
					t.Errorf("%d starts, %d killed, code %d, %s", len(applications)-1, killed, p.code(), p.sleep.state)
				}
				var lines []string
				for _, e := range log.All() {
					if strings.Contains(e.Message, "drain") || e.Message == "sending SIGTERM to the application" {
						continue // another test checks these messages
					}
					lines = append(lines, e.Time.Sub(start).String()+": "+e.Message)
				}
				if !slices.Equal(lines, c.lines) {
					t.Errorf("got\n%s", strings.Join(lines, "\n"))
				}
			})
		})
	}
}

// fakeFreezer counts the calls.
type fakeFreezer struct {
	freezes, thaws int
	err            error // returned by Freeze and Thaw
}

func (f *fakeFreezer) Freeze() error { f.freezes++; return f.err }
func (f *fakeFreezer) Thaw() error   { f.thaws++; return f.err }

func TestAFrozenApplicationIsThawedByARequestOrADrain(t *testing.T) {
	thawErr := errors.New("no such group")
	for name, c := range map[string]struct {
		request        time.Duration // time of a request; 0 = no request
		crash          time.Duration // time when the application crashes; 0 = never
		err            error         // returned by Freeze and Thaw
		freezes, thaws int
		code           int
		last           string // last log message
	}{
		"a drain signals it":                     {freezes: 1, code: 143, last: "sending SIGTERM to the application"},
		"a request thaws it, and it falls again": {request: 90 * time.Second, freezes: 2, thaws: 1, code: 143, last: "sending SIGTERM to the application"},
		"it is killed while it is frozen": {crash: 80 * time.Second, freezes: 1, code: 143,
			last: "the application has ended by itself: exit code 0"},
		"it cannot be thawed": {request: 90 * time.Second, err: thawErr, freezes: 1, thaws: 1, code: 126, last: "sending SIGTERM to the application"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, f, idle := newFakeGate(), &fakeFreezer{err: c.err}, &fakeIdle{wanted: make(chan struct{}, 1)}
				close(g.closed)
				a := &fakeApplication{needs: time.Second, gone: make(chan struct{}), code: 143}
				core, log := observer.New(zapcore.InfoLevel)
				signals := make(chan os.Signal, 4)
				p := process{gate: g, application: a, signals: signals, log: zap.New(core), notify: func(string) {}}
				p.sleep = sleeper{idle: idle, idleTimeout: time.Minute, mode: &freezeMode{freezer: f}}
				p.sleep.begin()
				if c.request > 0 {
					time.AfterFunc(c.request, func() { idle.request(); idle.end() })
				}
				if c.crash > 0 {
					time.AfterFunc(c.crash, func() { close(a.gone) })
				} else if c.err == nil {
					time.AfterFunc(10*time.Minute, func() { signals <- syscall.SIGTERM })
					time.AfterFunc(11*time.Minute, func() { close(g.drained) })
				}
				if err := p.end(); err != nil {
					t.Fatal(err)
				}
				if idle.isAsleep {
					t.Error("the requests that wait are not released")
				}
				if f.freezes != c.freezes || f.thaws != c.thaws || p.code() != c.code || a.killed {
					t.Errorf("%d frozen, %d thawed, code %d, killed %v", f.freezes, f.thaws, p.code(), a.killed)
				}
				lines := log.All()
				if got := lines[len(lines)-1].Message; got != c.last {
					t.Errorf("last line %q", got)
				}
			})
		})
	}
}

func TestACrashOfAnAwakeApplicationEndsTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a := newFakeGate(), &fakeApplication{needs: time.Second, gone: make(chan struct{})}
		close(g.closed)
		core, log := observer.New(zapcore.ErrorLevel)
		p := process{gate: g, application: a, log: zap.New(core), notify: func(string) {}}
		idle := &fakeIdle{wanted: make(chan struct{}, 1)}
		p.sleep = sleeper{idle: idle, idleTimeout: time.Minute, mode: &stopMode{restart: func() (runningApplication, int, error) { return nil, 0, errors.New("not asked for") }}}
		p.sleep.begin()
		time.AfterFunc(30*time.Second, func() { close(a.gone) })
		if err := p.end(); err != nil || idle.suspended > 0 || log.Len() != 1 {
			t.Errorf("%v, suspended %d times, %d errors", err, idle.suspended, log.Len())
		}
	})
}
