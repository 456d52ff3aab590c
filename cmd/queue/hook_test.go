package main

import (
	"errors"
	"net/http"
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

// fakeEngine replies to the hooks.
type fakeEngine struct {
	start time.Time
	reply func(path string, since time.Duration) (status int, took time.Duration) // status 0 = no connection
	calls []string
	open  int
	most  int // largest number of concurrent calls
}

func (e *fakeEngine) roundTrip(r *http.Request) (int, error) {
	e.open++
	e.most = max(e.most, e.open)
	defer func() { e.open-- }()
	since := time.Since(e.start)
	e.calls = append(e.calls, since.String()+" "+r.Method+" "+r.URL.Path)
	status, took := e.reply(r.URL.Path, since)
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return 0, r.Context().Err()
	}
	if status == 0 {
		return 0, errors.New("refused")
	}
	return status, nil
}

func TestHooksTellAServerToSleepAndToWake(t *testing.T) {
	always := func(string, time.Duration) (int, time.Duration) { return 200, time.Second }
	for name, c := range map[string]struct {
		reply   func(path string, since time.Duration) (status int, took time.Duration)
		request time.Duration // when a request arrives, since the start; 0 = no request
		calls   []string
		resumed time.Duration // when forwarding resumes, since the start; 0 = never
		warns   []string
	}{
		"it is told to sleep once": {reply: always, calls: []string{"1m0s POST /sleep"}},
		"a request waits until it is awake": {reply: always, request: 90 * time.Second,
			calls: []string{"1m0s POST /sleep", "1m30s POST /wake", "2m31s POST /sleep"}, resumed: 91 * time.Second},
		"a request that begins while it is told to sleep wakes it afterwards": {reply: always, request: 60*time.Second + 500*time.Millisecond,
			calls: []string{"1m0s POST /sleep", "1m1s POST /wake", "2m2s POST /sleep"}, resumed: 62 * time.Second},
		"a wake that fails is retried while requests wait": {request: 90 * time.Second,
			reply: func(path string, since time.Duration) (int, time.Duration) {
				if path == "/wake" && since < 90*time.Second+100*time.Millisecond {
					return 503, 0
				}
				return 204, 0
			},
			calls: []string{"1m0s POST /sleep", "1m30s POST /wake", "1m30.05s POST /wake", "1m30.15s POST /wake", "2m30.15s POST /sleep"}, resumed: 90*time.Second + 150*time.Millisecond},
		"requests are forwarded after the timeout, and the wake is retried": {request: 90 * time.Second,
			reply: func(path string, since time.Duration) (int, time.Duration) {
				if path == "/wake" && since < 105*time.Second {
					return 0, 7 * time.Second
				}
				return 200, 0
			},
			calls: []string{"1m0s POST /sleep", "1m30s POST /wake", "1m37.05s POST /wake", "1m44.15s POST /wake", "1m51.35s POST /wake", "2m40s POST /sleep"}, resumed: 100 * time.Second,
			warns: []string{"1m40s WAKE_HOOK fails and is retried: refused"}},
		"a sleep that fails is retried and logged once": {request: 62 * time.Second,
			reply: func(path string, since time.Duration) (int, time.Duration) {
				if path == "/sleep" && since < time.Minute+100*time.Millisecond {
					return 302, 0
				}
				return 200, 0
			},
			calls:   []string{"1m0s POST /sleep", "1m0.05s POST /sleep", "1m0.15s POST /sleep", "1m2s POST /wake", "2m2s POST /sleep"},
			resumed: 62 * time.Second, warns: []string{"1m0s IDLE_HOOK fails and is retried: status 302"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{start: time.Now(), reply: c.reply}
				core, log := observer.New(zapcore.InfoLevel)
				g, idle, signals := newFakeGate(), &fakeIdle{wanted: make(chan struct{}, 1)}, make(chan os.Signal, 4)
				close(g.closed)
				p := process{gate: g, application: (*application.Process)(nil), signals: signals, log: zap.New(core), notify: func(string) {}}
				m := newHookMode("http://localhost/sleep", "http://localhost/wake", 10*time.Second)
				m.idle.roundTrip, m.wake.roundTrip = e.roundTrip, e.roundTrip
				p.sleep = sleeper{idle: idle, idleTimeout: time.Minute, mode: m}
				p.sleep.begin()
				if c.request > 0 {
					time.AfterFunc(c.request, func() { idle.request(); idle.end() })
				}
				time.AfterFunc(170*time.Second, func() { signals <- syscall.SIGTERM })
				time.AfterFunc(175*time.Second, func() { close(g.drained) })
				if err := p.end(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Equal(e.calls, c.calls) || e.most != 1 {
					t.Errorf("%d at once: %q", e.most, e.calls)
				}
				var warns []string
				resumed := time.Duration(0)
				for _, l := range log.All() {
					if l.Level == zapcore.WarnLevel {
						warns = append(warns, l.Time.Sub(e.start).String()+" "+l.Message+": "+l.ContextMap()["error"].(string))
					}
					if strings.HasPrefix(l.Message, "requests are forwarded again") {
						resumed = l.Time.Sub(e.start)
					}
				}
				if !slices.Equal(warns, c.warns) || resumed != c.resumed {
					t.Errorf("resumed after %v, %q", resumed, warns)
				}
			})
		})
	}
}

func TestTheWakeHookIsCalledAtTheStartOfTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{start: time.Now(), reply: func(_ string, since time.Duration) (int, time.Duration) {
			if since < time.Second {
				return 0, 0
			}
			return 200, 0
		}}
		core, log := observer.New(zapcore.InfoLevel)
		m := newHookMode("http://localhost/sleep", "http://localhost/wake", 10*time.Second)
		m.idle.roundTrip, m.wake.roundTrip = e.roundTrip, e.roundTrip
		m.begin(zap.New(core))
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := e.calls[len(e.calls)-1]; last != "1.55s POST /wake" || log.Len() > 0 {
			t.Errorf("%q, %d log lines", e.calls, log.Len())
		}
	})
}
