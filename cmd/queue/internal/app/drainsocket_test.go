package app

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

func newDrain(t *testing.T, quiet time.Duration) *exchange.Drain {
	t.Helper()
	g := &exchange.Gate{Config: exchange.Config{DrainQuiet: quiet}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	return g.Drain
}

// asked runs both ends of `queue drain` over a pipe: the caller, and a gate with the
// drain d. The channel result receives the error of the caller. The function gone closes
// the gate's end of the pipe.
func asked(d *exchange.Drain) (result <-chan error, gone func()) {
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go new(drainSocket).serve(theirs, d)
	go func() {
		ended <- awaitDrain(ours)
		_ = ours.Close()
	}()
	return ended, func() { _ = theirs.Close() }
}

func TestQueueDrainReturnsWhenRequestsHaveBeenServedAndTunnelsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(t, 10*time.Second)
		d.Enter()
		d.EnterTunnel()
		d.Enter()
		start := time.Now()
		ended, _ := asked(d)
		time.AfterFunc(time.Hour, d.Leave)
		if err := <-ended; err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		d.LeaveTunnel()
		d.End()
	})
}

func TestQueueDrainSucceedsIfTheProcessEndsRightAfterTheDrain(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := newDrain(t, 0)
			d.Enter()
			ended, _ := asked(d)
			synctest.Wait()
			d.Leave()
			d.End()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestQueueDrainFailsIfTheDrainIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(t, 0)
		d.Enter()
		ended, _ := asked(d)
		synctest.Wait()
		d.End()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		d.Leave()
	})
}

func TestQueueDrainDoesNotWaitForASilentGate(t *testing.T) {
	for sent, after := range map[string]time.Duration{"": drainSilence, drainGoing: drainSilence, drainGoing + drainGoing: drainSilence} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				_, _ = io.ReadFull(theirs, make([]byte, len(drainAsked)))
				_, _ = io.WriteString(theirs, sent)
			}()
			start := time.Now()
			if err := awaitDrain(ours); err == nil || !strings.Contains(err.Error(), "sent nothing") || time.Since(start) != after {
				t.Errorf("after %q: %v after %v", sent, err, time.Since(start))
			}
			_ = ours.Close()
		})
	}
}

// scarce is a listener whose first accepts fail for lack of descriptors.
type scarce struct {
	mu       sync.Mutex
	failures int
	conns    chan net.Conn
}

func (l *scarce) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Err: net.ErrClosed}
}

func (l *scarce) Close() error   { close(l.conns); return nil }
func (l *scarce) Addr() net.Addr { return nil }

func TestTheDrainSocketSurvivesAFailedAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrain(t, 0)
		l := &scarce{failures: 50, conns: make(chan net.Conn, 1)}
		s := &drainSocket{ln: l}
		s.callers.Go(func() { s.accept(d) })
		ours, theirs := net.Pipe()
		l.conns <- theirs
		start := time.Now()
		if err := awaitDrain(ours); err != nil || time.Since(start) != 50*acceptPause {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		d.End()
		s.close()
	})
}
