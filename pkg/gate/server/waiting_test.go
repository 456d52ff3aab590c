package server

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// mute is a protocol that no client speaks.
type mute struct{}

func (mute) On(*Worker) Part { return mute{} }
func (mute) Unfinished() int { return 0 }
func (mute) Oldest(found func(exchange.IdleConnection, bool)) {
	found(exchange.IdleConnection{}, false)
}
func (mute) CloseOldest(exchange.Idleness)                  {}
func (mute) Adopt(int, netip.AddrPort, *loop.Layer, []byte) {}
func (mute) Leave() bool                                    { return false }
func (mute) Connector() exchange.Connector                  { return nil }
func (mute) IdleUpstreams() int                             { return 0 }

func TestAnUnfinishedHelloHasATimeLimit(t *testing.T) {
	g := &exchange.Gate{Config: exchange.Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(g, Config{HTTP1: mute{}, Upstream: upstream.Config{Address: netip.MustParseAddrPort("127.0.0.1:1")}, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := s.ServeTLS(ln.(*net.TCPListener), func(fd int, _ netip.AddrPort) { t.Error("taken over"); _ = unix.Close(fd) }); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "\x16\x03\x01"); err != nil {
		t.Fatal(err)
	}
	w := s.workers[0]
	for limited := false; !limited; time.Sleep(time.Millisecond) {
		done := make(chan struct{})
		w.Loop.Post(func() {
			defer close(done)
			if first := w.begun.Front(); first != nil {
				first.Value.(*waiting).handle.Until(w.Loop.Now() + 1) // in the place of 10 s
				limited = true
			}
		})
		<-done
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %v, want an end", err)
	}
}
