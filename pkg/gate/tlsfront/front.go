package tlsfront

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Front serves one port. Make it with New, start it with Start.
type Front struct {
	cfg      Config
	reloader *reloader
	base     *tls.Config // what handshakes begin with

	mu         sync.Mutex
	serving    bool
	closed     bool
	handshakes *handshakes
	following  sync.WaitGroup

	done, failed atomic.Uint64
}

// New checks the configuration.
func New(c Config) (*Front, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &Front{cfg: c}
	f.handshakes = newHandshakes(c.Descriptors, f.handshake)
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
	f.following.Go(func() { f.reloader.follow(f.loaded) })
	return nil
}

// Reload checks the files now, and passes the result to Changed in any case.
func (f *Front) Reload() { f.reloader.reload() }

// Stats may be called at any time.
func (f *Front) Stats() gate.TLSStats {
	return gate.TLSStats{
		Reloads: f.reloader.reloads.Load(), ReloadFailures: f.reloader.failures.Load(), NotAfter: f.reloader.expires.Load(),
		Handshakes: f.done.Load(), HandshakeFailures: f.failed.Load(), Handshaking: f.handshakes.len(),
	}
}

// Close ends the handshakes under way and waits for them. The port itself, and
// connections that have been handed on, are not the Front's.
func (f *Front) Close() {
	f.mu.Lock()
	already := f.closed
	f.closed = true
	f.mu.Unlock()
	if !already {
		close(f.reloader.stop)
	}
	f.handshakes.close()
	f.following.Wait()
}

// loaded opens the port if it is not open and there is a certificate.
func (f *Front) loaded() {
	f.mu.Lock()
	opened := f.serving || f.closed
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
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ln.Close()
	}
	f.serving = true
	return f.cfg.Serve(ln, f.begin)
}

// begin takes over a connection whose first record has come. It does not block.
func (f *Front) begin(fd int, peer netip.AddrPort) {
	h := &handshake{conn: newConn(fd, peer)}
	if !f.handshakes.add(h) {
		_ = h.conn.Close()
		f.cfg.Descriptors.Release()
	}
}

// handshake hands the connection on, if there is a session.
func (f *Front) handshake(h *handshake) {
	layer := loop.NewLayer(h.conn)
	session := tls.Server(layer, f.base)
	layer.SetCodec(session)
	h.conn.read = func(b []byte) (int, error) { return f.handshakes.read(h, b) }
	err := session.Handshake()
	if whole := f.handshakes.finish(h); err == nil && !whole {
		err = errCrowded
	}
	if err == nil {
		f.done.Inc()
		f.handOn(h.conn, layer, session)
		return
	}
	f.failed.Inc()
	explain(h.conn, err)
	_ = h.conn.Close()
	f.cfg.Descriptors.Release()
	if f.cfg.Refused != nil {
		f.cfg.Refused(h.conn.RemoteAddr(), err)
	}
}

var errCrowded = errors.New("too many handshakes: this one waited longest for its client")

// handOn gives the connection to an engine.
func (f *Front) handOn(c *conn, layer *loop.Layer, session *tls.Conn) {
	adopt := f.cfg.HTTP1
	if session.ConnectionState().NegotiatedProtocol == "h2" {
		adopt = f.cfg.HTTP2
	}
	fd, err := c.take()
	if err != nil { // the system has no descriptor
		f.cfg.Descriptors.Release()
		return
	}
	adopt(fd, c.peer, layer)
}

const plaintextAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
	"K-Gate-Outcome: bad-request\r\nContent-Length: 27\r\nConnection: close\r\n\r\nthis port speaks TLS only.\n"

// explain tells a client that speaks HTTP to a port of TLS what is wrong.
func explain(c net.Conn, err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch strings.TrimRight(string(header.RecordHeader[:]), " /") {
	case "GET", "POST", "HEAD", "PUT", "DELET", "PATCH", "OPTIO", "CONNE", "TRACE":
		_, _ = c.Write([]byte(plaintextAnswer))
	}
}
