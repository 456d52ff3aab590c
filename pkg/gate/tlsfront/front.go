package tlsfront

import (
	"crypto/tls"
	"sync"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// Front serves one TLS port. Create it with New, then call Start.
type Front struct {
	cfg      Config
	reloader *reloader
	port     server.TLS

	mu        sync.Mutex
	serving   bool
	closed    bool
	followers sync.WaitGroup
}

// New checks c and returns a Front.
func New(c Config) (*Front, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &Front{cfg: c}
	f.reloader = newReloader(&f.cfg)
	f.port.Config = &tls.Config{GetConfigForClient: f.reloader.configForClient, MinVersion: tls.VersionTLS12}
	f.port.Failed = c.HandshakeFailed
	return f, nil
}

// Start loads the certificate and opens the port. If there is no certificate, the port is
// opened when one appears. Start returns an error only if it cannot open the port. It
// passes other problems to Config.Changed.
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
	f.followers.Go(func() { f.reloader.follow(f.loaded) })
	return nil
}

// Reload checks the files immediately, and passes the result to Changed even if nothing
// has changed.
func (f *Front) Reload() { f.reloader.reload() }

// Stats returns counters. It may be called from any goroutine.
func (f *Front) Stats() gate.TLSStats {
	s := gate.TLSStats{Reloads: f.reloader.reloads.Load(), ReloadFailures: f.reloader.failures.Load(), NotAfter: f.reloader.expires.Load()}
	s.Handshakes, s.HandshakeFailures, s.Handshaking = f.port.Handshakes()
	return s
}

// Close stops watching the files. The port and its connections belong to the server.
func (f *Front) Close() {
	f.mu.Lock()
	already := f.closed
	f.closed = true
	f.mu.Unlock()
	if !already {
		close(f.reloader.stop)
	}
	f.followers.Wait()
}

// loaded is called after each new certificate and each requested reload. It opens the
// port if a certificate is loaded and the port has not been opened yet.
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
	return f.cfg.Serve(ln, &f.port)
}
