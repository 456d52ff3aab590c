package tlsfront

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// maxFileBytes is the maximum file size; certificate chains usually have a few thousand
// bytes.
const maxFileBytes = 1 << 20

// material is the content of the files at one time.
type material struct {
	files    [][]byte
	pair     tls.Certificate
	clientCA *x509.CertPool // nil: clients need no certificate
}

// paths returns the files, certificate and key first.
func (c *Config) paths() []string {
	p := []string{filepath.Join(c.Dir, certificateFile), filepath.Join(c.Dir, keyFile)}
	if c.ClientCA != "" {
		p = append(p, c.ClientCA)
	}
	return p
}

// readFiles reads all files. The error is ErrNone if both certificate and key are
// missing.
func (c *Config) readFiles() ([][]byte, error) {
	var files [][]byte
	var problems []error
	missing := 0
	for i, path := range c.paths() {
		b, err := readFile(path)
		if err != nil {
			problems = append(problems, err)
			if i < 2 && errors.Is(err, fs.ErrNotExist) {
				missing++
			}
		}
		files = append(files, b)
	}
	if missing == 2 {
		return nil, fmt.Errorf("reading %s: %w", c.Dir, ErrNone)
	}
	return files, errors.Join(problems...)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading %s: want a file of at most %d bytes", path, maxFileBytes)
	}
	return os.ReadFile(path)
}

// parse parses files, which the result refers to.
func (c *Config) parse(files [][]byte) (*material, error) {
	m := &material{files: files}
	var err error
	if m.pair, err = tls.X509KeyPair(files[0], files[1]); err != nil {
		return nil, fmt.Errorf("loading %s and %s of %s: %w", certificateFile, keyFile, c.Dir, err)
	}
	if c.ClientCA != "" {
		m.clientCA = x509.NewCertPool()
		if !m.clientCA.AppendCertsFromPEM(files[2]) {
			return nil, fmt.Errorf("loading TLS_CLIENT_CA=%s: %w", c.ClientCA, errNoClientCert)
		}
	}
	return m, nil
}

// same reports whether files equals the content of m.
func (m *material) same(files [][]byte) bool {
	if m == nil {
		return false
	}
	for i := range files {
		if !bytes.Equal(files[i], m.files[i]) {
			return false
		}
	}
	return true
}

func (m *material) notAfter() time.Time { return m.pair.Leaf.NotAfter }
