package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	mu   sync.Mutex
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a := &authority{t: t, key: key, next: 1}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	return a
}

// issue signs a certificate for localhost and these URIs.
func (a *authority) issue(uris ...string) (certificate, key []byte, serial int64) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(a.next), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, text := range uris {
		u, err := url.Parse(text)
		must(a.t, err)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	must(a.t, err)
	secret, err := x509.MarshalECPrivateKey(k)
	must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), a.next
}

func (a *authority) pair(uris ...string) tls.Certificate {
	a.t.Helper()
	certificate, key, _ := a.issue(uris...)
	pair, err := tls.X509KeyPair(certificate, key)
	must(a.t, err)
	return pair
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// put writes a new certificate and key to dir, and returns the serial number.
func (a *authority) put(dir string) int64 {
	a.t.Helper()
	certificate, key, serial := a.issue()
	must(a.t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	must(a.t, os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600))
	return serial
}

type tlsGate struct {
	*gate
	ca     *authority
	dir    string
	secure string // address of the TLS port
}

func startTLSGate(t *testing.T, k *container, settings ...string) *tlsGate {
	t.Helper()
	g := &tlsGate{ca: newAuthority(t), dir: shortTempDir(t)}
	g.ca.put(g.dir)
	g.start(t, k, settings...)
	return g
}

func (g *tlsGate) start(t *testing.T, k *container, settings ...string) {
	t.Helper()
	port := freePort(t)
	g.secure = fmt.Sprintf("127.0.0.1:%d", port)
	g.gate = startGate(t, k, append(settings, "CERT_DIR="+g.dir, fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", port))...)
}

// tlsClient is a raw TLS connection.
type tlsClient struct {
	*client
	tls *tls.Conn
}

func (g *tlsGate) config() *tls.Config {
	return &tls.Config{RootCAs: g.ca.pool(), ServerName: "localhost"}
}

// dialTLS performs the handshake. A nil config means g.config().
func dialTLS(t *testing.T, g *tlsGate, config *tls.Config) *tlsClient {
	t.Helper()
	c, err := tryDialTLS(t, g, config)
	must(t, err)
	return c
}

func tryDialTLS(t *testing.T, g *tlsGate, config *tls.Config) (*tlsClient, error) {
	t.Helper()
	if config == nil {
		config = g.config()
	}
	wire := dialAddr(t, g.secure)
	c := &tlsClient{client: wire, tls: tls.Client(bounded{wire.net}, config)}
	c.end = newEnd(t, "client", c.tls)
	return c, c.tls.Handshake()
}

// sayEnd sends a close_notify without a FIN.
func (c *tlsClient) sayEnd() { c.t.Helper(); must(c.t, c.tls.CloseWrite()) }

// atWire reads raw TLS records until EOF.
func atWire(t *testing.T, c net.Conn) []byte {
	t.Helper()
	var all []byte
	b := make([]byte, 4<<10)
	for {
		n, err := c.Read(b)
		if all = append(all, b[:n]...); err != nil {
			return all
		}
	}
}
