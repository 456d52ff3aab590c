package otlp

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

// relay forwards connections to a collector until they are frozen. Frozen connections
// stay open, but no bytes are forwarded.
type relay struct {
	net.Listener
	to string

	mu     sync.Mutex
	opened []net.Conn
	ice    chan struct{}
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, ice: make(chan struct{})}
	var ran sync.WaitGroup
	ran.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", r.to)
			if err != nil {
				from.Close()
				continue
			}
			r.mu.Lock()
			r.opened = append(r.opened, from, to)
			ice := r.ice
			r.mu.Unlock()
			ran.Go(func() { pass(to, from, ice) })
			ran.Go(func() { pass(from, to, ice) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		for _, c := range r.opened {
			c.Close()
		}
		r.mu.Unlock()
		ran.Wait()
	})
	return r
}

func pass(to, from net.Conn, ice chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-ice:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// freeze freezes all open connections. Later connections work.
func (r *relay) freeze() (connections int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ice)
	r.ice = make(chan struct{})
	return len(r.opened) / 2
}

func TestAConnectionThatDiedSilentlyIsNotReused(t *testing.T) {
	for protocol, c := range map[string]*otlptest.Collector{ProtocolHTTP: otlptest.HTTP(t, nil), ProtocolGRPC: otlptest.GRPC(t, nil)} {
		r := newRelay(t, c.Listener.Addr().String())
		s := sender(t, protocol, "http://"+r.Addr().String())
		if _, err := s.Send(t.Context(), []byte("first")); err != nil {
			t.Fatal(err)
		}
		if n := r.freeze(); n != 1 {
			t.Fatalf("%s: %d connections", protocol, n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Send(ctx, []byte("lost")); err == nil {
			t.Errorf("%s: an response over a frozen connection", protocol)
		}
		cancel()
		if _, err := s.Send(t.Context(), []byte("second")); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
