package tlsfront

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
)

var (
	errNoClient     = errors.New("the client has no certificate")
	errClientName   = errors.New("the client's certificate has none of the names in TLS_CLIENT_SANS")
	errNoClientCert = errors.New("no certificate in the file")
)

// clientCheck checks a client's certificate in addition to its signature.
type clientCheck struct{ names []string }

// verify is a VerifyConnection function. Before it is called, crypto/tls has verified the
// chain against the current CA, even for a resumed session.
func (v *clientCheck) verify(cs tls.ConnectionState) error {
	switch {
	case len(cs.PeerCertificates) == 0:
		return errNoClient
	case len(v.names) > 0 && !v.matchesName(cs.PeerCertificates[0]):
		return errClientName
	}
	return nil
}

// matchesName compares whole names: DNS names case-insensitively, URIs exactly.
// Wildcards are not expanded.
func (v *clientCheck) matchesName(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(v.names, func(want string) bool {
		for _, name := range leaf.DNSNames {
			if strings.EqualFold(name, want) {
				return true
			}
		}
		for _, uri := range leaf.URIs {
			if uri.String() == want {
				return true
			}
		}
		return false
	})
}
