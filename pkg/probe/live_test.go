package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe/check"
	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func httpAt(port int) check.Checker { return &check.HTTP{Address: addressOf(port), Path: "/"} }

func tcpAt(port int) check.Checker { return &check.TCP{Address: addressOf(port)} }

func addressOf(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// live returns a running Readiness that uses real sockets.
func live(t *testing.T, o Options) *Readiness {
	t.Helper()
	r := New(o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(checktest.FailSafe):
			t.Error("Run does not return after its context")
		}
	})
	return r
}

// states returns a function for OnChange, and a function that waits for the next
// change.
func states() (onChange func(Change), next func(*testing.T) State) {
	ch := make(chan State, 100)
	return func(c Change) { ch <- c.To }, func(t *testing.T) State {
		t.Helper()
		select {
		case s := <-ch:
			return s
		case <-time.After(checktest.FailSafe):
			t.Fatal("no change of state")
			return Unknown
		}
	}
}

func TestTheStateIsDownWhileARealServerRestarts(t *testing.T) {
	port := checktest.RefusingPort(t)
	onChange, next := states()
	r := live(t, Options{
		Specs:    []Spec{{Container: "app", Checker: httpAt(port), Host: "127.0.0.1", Port: port, Timeout: 10 * time.Second, SuccessThreshold: 1}},
		UserPort: port, OnChange: onChange, Wait: checktest.FailSafe,
	})
	expect := func(want ...State) {
		t.Helper()
		for _, w := range want {
			if got := next(t); got != w {
				t.Fatalf("state %v, want %v", got, w)
			}
		}
	}
	start := func() *http.Server {
		l, err := checktest.ListenReusing(port)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: checktest.Status(200), ErrorLog: checktest.QuietLog}
		go s.Serve(l)
		return s
	}
	expect(Down)
	server := start()
	expect(Ready)
	if a := r.Wait(t.Context(), gate.AnyProber); !a.Ready {
		t.Errorf("result %+v", a)
	}
	server.Close()
	r.Observed(false)
	expect(Down)
	if a, ok := r.Try(gate.AnyProber); a.Ready || ok {
		t.Errorf("result %+v, ok %v", a, ok)
	}
	server = start()
	defer server.Close()
	expect(Ready)
}

func TestProbersMayConnectAndDisconnectWhileTheContainerIsDown(t *testing.T) {
	port := checktest.RefusingPort(t)
	onChange, next := states()
	r := live(t, Options{Specs: []Spec{{Container: "app", Checker: tcpAt(port), Host: "127.0.0.1", Port: port, Timeout: time.Second, SuccessThreshold: 1}}, Wait: checktest.FailSafe, OnChange: onChange})
	if s := next(t); s != Down {
		t.Fatalf("state %v", s)
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			defer cancel()
			r.Observed(false)
			if a := r.Wait(ctx, caller(i%2 == 0)); a.Ready {
				t.Error("ready")
			}
		})
	}
	wg.Wait()
	if s := r.Snapshot()[0]; s.Reached != 0 || s.Attempts == 0 {
		t.Errorf("snapshot %+v", s)
	}
}

func TestCloseEndsACheckInProgress(t *testing.T) {
	got := make(chan struct{})
	var once sync.Once
	port := checktest.ServeRaw(t, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		once.Do(func() { close(got) })
		checktest.Silent(c)
	})
	live(t, Options{Specs: []Spec{{Container: "app", Checker: httpAt(port), Host: "127.0.0.1", Port: port, Timeout: time.Hour, SuccessThreshold: 1}}})
	<-got
}

func TestConnectionResultsReportedAfterReadinessHasStoppedAreIgnored(t *testing.T) {
	r := New(Options{Specs: []Spec{{Container: "app", Checker: tcpAt(checktest.RefusingPort(t)), Host: "127.0.0.1", Port: checktest.RefusingPort(t), Timeout: time.Second, SuccessThreshold: 1}}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	probeFor(r, 20*time.Millisecond)
	cancel()
	<-done
	r.Observed(true)
	r.Observed(false)
	if a := r.Wait(t.Context(), gate.AnyProber); a.Ready || a.Reason != "app: stopped" {
		t.Errorf("result %+v", a)
	}
}
