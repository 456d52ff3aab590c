package tlsfront

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/server"
)

// Config says what is served. It is read-only once a Front has it.
type Config struct {
	// Dir holds tls.crt and tls.key, in PEM.
	Dir string
	// MinVersion and MaxVersion bound the version of TLS; 0 = 1.2 and 1.3.
	MinVersion, MaxVersion uint16
	// CipherSuites are those of TLS 1.2; nil = those of Go. Those of 1.3 are not
	// for choosing.
	CipherSuites []uint16
	// Curves are the key exchanges; nil = those of Go.
	Curves []tls.CurveID
	// ClientCA is a file of certificates in PEM, one of which must have signed
	// the client's; "" = clients need none.
	ClientCA string
	// ClientSANs are the names, DNS or URI, of which a client's certificate must
	// have one; none = any that ClientCA signed.
	ClientSANs []string

	// HTTP2 offers h2 to clients, which Serve then has to serve.
	HTTP2 bool
	// Listen opens the port. It is called once there is a certificate.
	Listen func() (*net.TCPListener, error)
	// Serve accepts connections: Server.ServeTLS. It must not block.
	Serve func(ln *net.TCPListener, port *server.TLS) error
	// Changed is called when a certificate comes into use or cannot be used. It may
	// be nil.
	Changed func(Change)
	// Refused is called, on a loop, for each handshake that failed. It may be nil.
	Refused func(peer netip.AddrPort, err error)
}

// Change is a change of the certificate, or an attempt at one.
type Change struct {
	// Err says why the files are not in use; the old certificate, if there is
	// one, stays. ErrNone means that there are no files.
	Err error
	// New is true when a certificate has come into use, and false for the result
	// of a Reload that changed nothing.
	New bool
	// Serving is true if there is a certificate, valid until NotAfter.
	Serving  bool
	NotAfter time.Time
}

// ErrNone says that the directory holds neither tls.crt nor tls.key.
var ErrNone = errors.New("neither tls.crt nor tls.key")

// CipherSuites are the suites of these names, as crypto/tls spells them.
// Insecure ones have no name here.
func CipherSuites(names []string) ([]uint16, error) {
	var ids []uint16
	for _, name := range names {
		found := false
		for _, suite := range tls.CipherSuites() {
			if suite.Name == name {
				ids, found = append(ids, suite.ID), true
			}
		}
		if !found {
			return nil, fmt.Errorf("TLS cipher suite %q: unknown", name)
		}
	}
	return ids, nil
}

var curves = []tls.CurveID{tls.X25519, tls.X25519MLKEM768, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// Curves are the key exchanges of these names, as crypto/tls spells them.
func Curves(names []string) ([]tls.CurveID, error) {
	var ids []tls.CurveID
	for _, name := range names {
		found := false
		for _, curve := range curves {
			if curve.String() == name {
				ids, found = append(ids, curve), true
			}
		}
		if !found {
			return nil, fmt.Errorf("TLS curve %q: unknown", name)
		}
	}
	return ids, nil
}

// check reports what cannot work, whatever the files hold.
func (c *Config) check() error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("TLS without a directory of certificates"))
	}
	if c.MaxVersion != 0 && c.MinVersion > c.MaxVersion {
		problems = append(problems, fmt.Errorf("TLS from version %s to %s: want an order", tls.VersionName(c.MinVersion), tls.VersionName(c.MaxVersion)))
	}
	if len(c.ClientSANs) > 0 && c.ClientCA == "" {
		problems = append(problems, errors.New("names of TLS clients without their CA: any authority could sign them"))
	}
	if c.Listen == nil || c.Serve == nil {
		problems = append(problems, errors.New("TLS without a port or a server"))
	}
	return errors.Join(problems...)
}

// serverConfig is the configuration of handshakes with this material.
func (c *Config) serverConfig(m *material) *tls.Config {
	t := &tls.Config{
		Certificates:     []tls.Certificate{m.pair},
		MinVersion:       max(c.MinVersion, tls.VersionTLS12),
		MaxVersion:       c.MaxVersion,
		CipherSuites:     c.CipherSuites,
		CurvePreferences: c.Curves,
		NextProtos:       []string{"http/1.1"},
		// Answers leave in one piece; small records first, for slow networks, would
		// cost a megabyte's worth of them on each connection.
		DynamicRecordSizingDisabled: true,
	}
	if c.HTTP2 {
		t.NextProtos = []string{"h2", "http/1.1"}
	}
	if m.clientCA != nil {
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, m.clientCA
		t.VerifyConnection = (&clientCheck{c.ClientSANs}).verify
	}
	return t
}
