package tlsfront

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// handshakeTimeout is how long a client may take for its handshake.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds those under way.
	maxHandshakes = 256
	// crowdedTimeout replaces handshakeTimeout for the oldest of them when
	// there are maxHandshakes and one more waits.
	crowdedTimeout = time.Second
	// acceptPause is how long the backlog is left alone when there are no
	// descriptors.
	acceptPause = 50 * time.Millisecond
)

// Front serves one port. Make it with New, start it with Start.
type Front struct {
	cfg      Config
	reloader *reloader
	base     *tls.Config // what handshakes begin with

	mu         sync.Mutex
	ln         *net.TCPListener
	closed     bool
	handshakes handshakes
	ended      sync.WaitGroup

	done, failed atomic.Uint64
}

// New checks the configuration.
func New(c Config) (*Front, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &Front{cfg: c, handshakes: handshakes{free: make(chan struct{}, maxHandshakes)}}
	f.reloader = newReloader(&f.cfg)
	f.base = &tls.Config{GetConfigForClient: f.reloader.configForClient, MinVersion: tls.VersionTLS12}
	return f, nil
}

// Start loads the certificate and opens the port; if there is no certificate
// yet, the port opens when it comes. The error is that of the port.
func (f *Front) Start() error {
	if err := f.reloader.start(); err != nil && f.cfg.Changed != nil {
		f.reloader.report(err, false)
	}
	if f.reloader.current.Load() != nil {
		if err := f.open(); err != nil {
			f.reloader.unwatch()
			return err
		}
	}
	f.ended.Go(func() { f.reloader.follow(f.loaded) })
	return nil
}

// Reload checks the files now, and passes the result to Changed in any case.
func (f *Front) Reload() { f.reloader.reload() }

// Stats may be called at any time.
func (f *Front) Stats() gate.TLSStats {
	return gate.TLSStats{
		Reloads: f.reloader.reloads.Load(), ReloadFailures: f.reloader.failures.Load(), NotAfter: f.reloader.expires.Load(),
		Handshakes: f.done.Load(), HandshakeFailures: f.failed.Load(), Handshaking: len(f.handshakes.free),
	}
}

// Close closes the port, ends the handshakes under way and waits for them.
// Connections that have been handed on are not the Front's any more.
func (f *Front) Close() {
	f.mu.Lock()
	already := f.closed
	f.closed = true
	if f.ln != nil {
		_ = f.ln.Close()
	}
	f.mu.Unlock()
	if !already {
		close(f.reloader.stop)
	}
	f.handshakes.cut()
	f.ended.Wait()
}

// loaded opens the port if it is not open and there is a certificate.
func (f *Front) loaded() {
	f.mu.Lock()
	opened := f.ln != nil || f.closed
	f.mu.Unlock()
	if opened || f.reloader.current.Load() == nil {
		return
	}
	if err := f.open(); err != nil && f.cfg.Changed != nil {
		f.reloader.report(err, false)
	}
}

func (f *Front) open() error {
	ln, err := f.cfg.Listen()
	if err != nil {
		return err
	}
	if err := prepareListener(ln); err != nil {
		_ = ln.Close()
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ln.Close()
	}
	f.ln = ln
	f.ended.Go(func() { f.accept(ln) })
	return nil
}

// prepareListener sets what accepted connections inherit: a keep-alive that
// finds a vanished peer within a minute.
func prepareListener(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3),
		)
	})
	return errors.Join(err, failed)
}

func (f *Front) accept(ln *net.TCPListener) {
	for {
		f.acquire()
		c, err := ln.AcceptTCP()
		if err != nil {
			f.cfg.Descriptors.Release()
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		place := f.handshakes.begin(c)
		f.ended.Go(func() { f.handshake(c, place) })
	}
}

// acquire waits for a descriptor.
func (f *Front) acquire() {
	for !f.cfg.Descriptors.TryAcquire() {
		again := make(chan struct{})
		f.cfg.Descriptors.Await(func() { close(again) })
		f.cfg.Descriptors.Reclaim()
		<-again
	}
}

// handshake does the handshake and hands the connection on.
func (f *Front) handshake(c *net.TCPConn, place *list.Element) {
	loop.EaseConn(c)
	layer := loop.NewLayer(c)
	session := tls.Server(layer, f.base)
	layer.SetCodec(session)
	err := session.Handshake()
	f.handshakes.end(place) // from here on nothing else sets deadlines
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		f.failed.Inc()
		explain(c, err)
		_ = c.Close()
		f.cfg.Descriptors.Release()
		if f.cfg.Refused != nil {
			f.cfg.Refused(c.RemoteAddr(), err)
		}
		return
	}
	f.done.Inc()
	if f.cfg.HTTP2 != nil && session.ConnectionState().NegotiatedProtocol == "h2" {
		f.cfg.HTTP2(session)
		return
	}
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	fd, err := takeDescriptor(c)
	if err != nil {
		f.failed.Inc()
		f.cfg.Descriptors.Release()
		return
	}
	f.cfg.HTTP1(fd, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), layer)
}

// takeDescriptor takes the connection's descriptor out of the runtime's
// poller and closes c.
func takeDescriptor(c *net.TCPConn) (int, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(cerr, err)
}
