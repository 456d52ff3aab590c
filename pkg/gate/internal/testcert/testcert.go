// Package testcert creates certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// Authority is a CA.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// Leaf describes a certificate to issue.
type Leaf struct {
	Names    []string // DNS names; none = localhost and 127.0.0.1
	URIs     []string
	NotAfter time.Time // zero = in one hour
}

// New creates an Authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t), next: 1}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, SerialNumber: big.NewInt(1),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// PEM returns the CA certificate.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Pool returns a pool that contains the CA certificate.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Issue issues a certificate with a unique serial number. It returns the certificate and
// its key as PEM.
func (a *Authority) Issue(l Leaf) (certificate, key []byte) {
	a.t.Helper()
	a.next++
	k := newKey(a.t)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "leaf"}, SerialNumber: big.NewInt(a.next),
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: l.NotAfter, DNSNames: l.Names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if l.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if len(l.Names) == 0 && len(l.URIs) == 0 {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	for _, text := range l.URIs {
		u, err := url.Parse(text)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", secret)
}

// Pair is Issue for crypto/tls.
func (a *Authority) Pair(l Leaf) tls.Certificate {
	a.t.Helper()
	certificate, key := a.Issue(l)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
