package upstream

import (
	"crypto/tls"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

func TestAHandshakeWithASilentContainerTimesOut(t *testing.T) {
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	checked := make(chan struct{})
	l.Post(func() {
		defer close(checked)
		d := &Dialer{loop: l, cfg: &Config{TLS: &tls.Config{InsecureSkipVerify: true}}}
		c := d.NewConn()
		if err := l.Register(&c.Sock, pair[0], &loop.Handle{}); err != nil {
			t.Error(err)
			return
		}
		before := l.Nanotime()
		c.startHandshake(&exchange.Exchange{}, []string{"http/1.1"})
		if took := c.handshakeDeadline - before; took < handshakeTimeout {
			t.Errorf("the deadline is %d ns after the start", took)
		}
		if done, err := c.handshakeDone(c.handshakeDeadline - 1); done || err != nil {
			t.Errorf("done %v, %v before the timeout", done, err)
		}
		if _, err := c.handshakeDone(c.handshakeDeadline); err != syscall.ETIMEDOUT {
			t.Errorf("got %v at the timeout", err)
		}
		c.Sock.Close()
	})
	l.Close()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	<-checked
}
