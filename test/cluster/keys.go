package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// adminToken permits everything. The API server cannot be reached from outside the node's
// network namespace.
const adminToken = "admin"

// certificates writes the API server's certificate, the key pair for tokens of service
// accounts, and the administrator's token.
func (s *starter) certificates() error {
	keys := filepath.Join(s.state, "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(NodeAddress), net.ParseIP(apiService)},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	api, apiErr := newKey(filepath.Join(keys, "api.key"))
	accounts, accountsErr := newKey(filepath.Join(keys, "accounts.key"))
	if err := errors.Join(apiErr, accountsErr); err != nil {
		return err
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &api.PublicKey, api)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(filepath.Join(keys, "api.crt"), "CERTIFICATE", certificate),
		writePEM(filepath.Join(keys, "accounts.pub"), "PUBLIC KEY", public),
		s.write(filepath.Join(keys, "tokens.csv"), "%s,admin,admin,system:masters\n", adminToken),
		s.write(s.kubeconfig, kubeconfig, filepath.Join(keys, "api.crt"), adminToken),
	)
}

func newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	bytes, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(name, "EC PRIVATE KEY", bytes)
}

func writePEM(name, kind string, bytes []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}

// mountFile mounts a file over target, in this mount namespace only.
func (s *starter) mountFile(target, content string) error {
	source := filepath.Join(s.state, filepath.Base(target))
	if err := os.WriteFile(source, []byte(content), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}
