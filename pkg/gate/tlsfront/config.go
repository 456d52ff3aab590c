package tlsfront

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/server"
)

// Config configures a Front. The Front does not change it.
type Config struct {
	// Dir holds tls.crt and tls.key in PEM, or credentialbundle.pem with both.
	Dir string
	// MinVersion and MaxVersion bound the version of TLS; 0 = 1.2 and 1.3.
	MinVersion, MaxVersion uint16
	// CipherSuites are the cipher suites of TLS 1.2; nil = Go's default. TLS 1.3 suites
	// are not configurable.
	CipherSuites []uint16
	// Curves are the key exchanges; nil = Go's default.
	Curves []tls.CurveID
	// ClientCA is a PEM file with CA certificates. A client must have a certificate that
	// one of them has signed; "" = no client certificates.
	ClientCA string
	// ClientSANs are DNS names and URIs, one of which a client's certificate must have;
	// empty = any name.
	ClientSANs []string

	// HTTP2 offers h2 with ALPN. The server must then serve HTTP/2.
	HTTP2 bool
	// Listen opens the port. It is called when a certificate has been loaded.
	Listen func() (*net.TCPListener, error)
	// Serve makes a server accept connections from ln, as Server.ServeTLS does. It must
	// not block.
	Serve func(ln *net.TCPListener, port *server.TLS) error
	// Changed is called when a certificate comes into use or cannot be used. It may be
	// nil.
	Changed func(Change)
	// HandshakeFailed is called on a loop for each failed handshake. It may be nil.
	HandshakeFailed func(peer netip.AddrPort, err error)
}

// Change is a change of the certificate, or a failed attempt.
type Change struct {
	// Err is the reason why the files are not used. The previous certificate, if any,
	// then stays in use. ErrNone means that there are no files.
	Err error
	// New is true if a new certificate has come into use. It is false after a Reload that
	// changed nothing.
	New bool
	// Serving is true if a certificate is in use. NotAfter is the end of its validity.
	Serving  bool
	NotAfter time.Time
}

// ErrNone means that the directory contains no certificate and no key.
var ErrNone = errors.New("none of tls.crt, tls.key and credentialbundle.pem")

// CipherSuites returns the ids of the cipher suites with these names, as in crypto/tls.
// Insecure suites are not accepted.
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

// ApprovedCipherSuite reports whether crypto/tls uses the cipher suite in FIPS 140-3
// mode. Of the suites that CipherSuites accepts, crypto/tls uses only those with AES-GCM.
func ApprovedCipherSuite(id uint16) bool {
	return strings.Contains(tls.CipherSuiteName(id), "_GCM_")
}

// ApprovedCurve reports whether crypto/tls uses the key exchange in FIPS 140-3 mode.
func ApprovedCurve(id tls.CurveID) bool { return id != tls.X25519 }

var curves = []tls.CurveID{tls.X25519, tls.X25519MLKEM768, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// Curves returns the ids of the key exchanges with these names, as in crypto/tls.
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

// check reports problems that do not depend on the files.
func (c *Config) check() error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("TLS without a certificate directory"))
	}
	if c.MaxVersion != 0 && c.MinVersion > c.MaxVersion {
		problems = append(problems, fmt.Errorf("TLS from version %s to %s: the minimum is above the maximum", tls.VersionName(c.MinVersion), tls.VersionName(c.MaxVersion)))
	}
	if len(c.ClientSANs) > 0 && c.ClientCA == "" {
		problems = append(problems, errors.New("client names without a client CA: any CA could sign them"))
	}
	if c.Listen == nil || c.Serve == nil {
		problems = append(problems, errors.New("TLS without a port or a server"))
	}
	return errors.Join(problems...)
}

// serverConfig returns the tls.Config for m.
func (c *Config) serverConfig(m *material) *tls.Config {
	t := &tls.Config{
		Certificates:     []tls.Certificate{m.pair},
		MinVersion:       max(c.MinVersion, tls.VersionTLS12),
		MaxVersion:       c.MaxVersion,
		CipherSuites:     c.CipherSuites,
		CurvePreferences: c.Curves,
		NextProtos:       []string{"http/1.1"},
		// Dynamic record sizing would encode the first 128 KiB of each connection in
		// smaller records.
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
