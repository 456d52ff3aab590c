package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"go.uber.org/atomic"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
)

// tlsPort is the serving port over TLS. If it is off, front is nil.
type tlsPort struct {
	front *tlsfront.Front
	log   *zap.Logger
	dir   string
	port  int

	isOptional bool        // log a missing certificate only at debug level
	served     atomic.Bool // a certificate is or was in use, so the next is logged as new
}

// newTLSPort checks the TLS settings.
func newTLSPort(cfg *config.Config, a *App, log *zap.Logger) (*tlsPort, error) {
	p := &tlsPort{log: log, dir: cfg.TLS.Dir, port: cfg.ServingTLSPort}
	if cfg.ServingTLSPort == 0 {
		return p, nil
	}
	c := cfg.TLS
	c.Listen = func() (*net.TCPListener, error) {
		return a.sockets.Listen("QUEUE_SERVING_TLS_PORT", cfg.ListenAddress, cfg.ServingTLSPort)
	}
	c.HTTP2 = true
	c.Serve = func(ln *net.TCPListener, port *server.TLS) error { return a.serve(sockets.TLS, ln, port) }
	c.Changed, c.HandshakeFailed = p.changed, p.handshakeFailed
	var err error
	p.front, err = tlsfront.New(c)
	return p, err
}

func (p *tlsPort) start() error {
	if p.front == nil {
		return nil
	}
	return p.front.Start()
}

func (p *tlsPort) reload() {
	if p.front != nil {
		p.front.Reload()
	}
}

func (p *tlsPort) close() {
	if p.front != nil {
		p.front.Close()
	}
}

// stats returns zeros if the port is off.
func (p *tlsPort) stats() gate.TLSStats {
	if p.front == nil {
		return gate.TLSStats{}
	}
	return p.front.Stats()
}

// changed logs changes of the certificate.
func (p *tlsPort) changed(c tlsfront.Change) {
	dir := zap.String("certDir", p.dir)
	notAfter := zap.Time("notAfter", c.NotAfter)
	closed := fmt.Sprintf("no TLS certificate in CERT_DIR: port %d (QUEUE_SERVING_TLS_PORT) stays closed until there is one", p.port)
	switch {
	case c.Err == nil && c.New && time.Now().After(c.NotAfter):
		p.log.Warn("the TLS certificate has expired; it is served nevertheless", dir, notAfter)
	case c.Err == nil && !c.New:
		p.log.Info("the TLS certificate has not changed", dir, notAfter)
	case c.Err == nil && p.served.Swap(true):
		p.log.Info("a new TLS certificate is in use", dir, notAfter)
	case c.Err == nil:
		p.log.Info("serving TLS", zap.Int("port", p.port), dir, notAfter)
	case c.Serving:
		p.log.Error("the new TLS certificate cannot be used; the old one stays", dir, notAfter, zap.Error(c.Err))
	case errors.Is(c.Err, tlsfront.ErrNone) && p.isOptional:
		p.log.Debug(closed, dir)
	case errors.Is(c.Err, tlsfront.ErrNone):
		p.log.Info(closed, dir)
	default:
		p.log.Error("the TLS certificate cannot be used: the TLS port stays closed", zap.Int("port", p.port), dir, zap.Error(c.Err))
	}
}

func (p *tlsPort) handshakeFailed(peer netip.AddrPort, err error) {
	p.log.Debug("TLS handshake failed", zap.Stringer("peer", peer), zap.Error(err))
}

// upstreamTLS returns the TLS configuration for the container; nil = plaintext.
func upstreamTLS(cfg *config.Config) (*tls.Config, error) {
	if !cfg.UpstreamTLS {
		return nil, nil
	}
	c := &tls.Config{
		ServerName:                  cfg.UpstreamTLSServerName,
		InsecureSkipVerify:          cfg.UpstreamTLSInsecure,
		NextProtos:                  []string{"http/1.1"},
		ClientSessionCache:          tls.NewLRUClientSessionCache(0),
		DynamicRecordSizingDisabled: true,
	}
	if c.ServerName == "" {
		c.ServerName = "localhost"
	}
	if cfg.UpstreamTLSCA != "" {
		text, err := os.ReadFile(cfg.UpstreamTLSCA)
		if err != nil {
			return nil, fmt.Errorf("reading UPSTREAM_TLS_CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("reading UPSTREAM_TLS_CA=%s: no certificate in it", cfg.UpstreamTLSCA)
		}
	} else if pool := x509.NewCertPool(); pool.AppendCertsFromPEM([]byte(cfg.RootCA)) {
		c.RootCAs = pool
	}
	return c, nil
}
