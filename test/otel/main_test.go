package otel

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

var (
	gateBinary, proxyBinary string
	certificates            string // directory with ca.pem, server.pem, server.key, client.pem and client.key
)

func TestMain(m *testing.M) {
	var code int
	var err error
	if spec := os.Getenv(cellVariable); spec != "" {
		err = runCell(spec)
	} else {
		code, err = runAll(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "otel:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil { // cells mostly wait
		return 0, err
	}
	dir, err := os.MkdirTemp("", "otel")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	certificates = dir
	if err := writeCertificates(dir); err != nil {
		return 0, err
	}
	if gateBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	if proxyBinary = os.Getenv("QUEUE_PROXY_BINARY"); proxyBinary == "" {
		proxyBinary = filepath.Join(dir, "queue-proxy")
		build := exec.Command("go", "build", "-C", "../cluster/serving", "-o", proxyBinary, "knative.dev/serving/cmd/queue")
		if text, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building queue-proxy: %w\n%s", err, text)
		}
	}
	return m.Run(), nil
}

// writeCertificates writes a CA, and certificates of the collector and of its client.
func writeCertificates(dir string) error {
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	server := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "collector"}, DNSNames: []string{"localhost"}}
	for i := range byte(9) {
		server.IPAddresses = append(server.IPAddresses, net.IPv4(127, 0, 0, i))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	for name, c := range map[string]*x509.Certificate{
		"ca": ca, "server": server,
		"client": {SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "client"}},
		"other":  {SerialNumber: big.NewInt(4), Subject: pkix.Name{CommonName: "other"}},
	} {
		key := caKey
		if c != ca {
			if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
				return err
			}
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		if err != nil {
			return err
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
