package otlp

import (
	"bytes"
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
	lost   chan struct{} // capacity 1; receives a value when a frozen connection gets the message "lost"
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, ice: make(chan struct{}), lost: make(chan struct{}, 1)}
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
			ran.Go(func() { pass(to, from, ice, r.lost) })
			ran.Go(func() { pass(from, to, ice, r.lost) })
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

func pass(to, from net.Conn, ice, lost chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-ice:
			swallow(from, buf[:n], lost)
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

// swallow reads from a frozen connection. The parameter read has the bytes that were read
// before.
func swallow(from net.Conn, read []byte, lost chan<- struct{}) {
	all := bytes.Clone(read)
	for buf := make([]byte, 4096); !bytes.Contains(all, []byte("lost")); {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		all = append(all, buf[:n]...)
	}
	lost <- struct{}{}
	_, _ = io.Copy(io.Discard, from)
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
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		go func() {
			select {
			case <-r.lost:
				cancel()
			case <-ctx.Done():
			}
		}()
		if _, err := s.Send(ctx, []byte("lost")); err == nil {
			t.Errorf("%s: a response over a frozen connection", protocol)
		}
		cancel()
		if _, err := s.Send(t.Context(), []byte("second")); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
