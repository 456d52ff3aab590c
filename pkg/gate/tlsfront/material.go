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
	// bundleFile has the private key followed by the certificate chain, as Kubernetes
	// writes the credential bundle of a pod certificate. It takes precedence over the
	// pair.
	bundleFile = "credentialbundle.pem"
)

// maxFileBytes is the maximum size of each file.
const maxFileBytes = 1 << 20

// material is the parsed content of the files. The files were read together.
type material struct {
	files    files
	pair     tls.Certificate
	clientCA *x509.CertPool // nil: clients need no certificate
}

// files holds the contents of files that were read together. A credential bundle has both
// the certificate and the key, so certificate and key then hold the same bytes.
type files struct {
	certificate, key, clientCA []byte
	// source is for error messages. It has the names of the files that hold the
	// certificate and the key.
	source string
}

func (f *files) equal(other *files) bool {
	return bytes.Equal(f.certificate, other.certificate) && bytes.Equal(f.key, other.key) && bytes.Equal(f.clientCA, other.clientCA)
}

// paths returns all files that may be read, even those that do not exist.
func (c *Config) paths() []string {
	p := []string{filepath.Join(c.Dir, certificateFile), filepath.Join(c.Dir, keyFile), filepath.Join(c.Dir, bundleFile)}
	if c.ClientCA != "" {
		p = append(p, c.ClientCA)
	}
	return p
}

// readFiles reads the credential bundle if there is one, otherwise the pair, and the
// client CA. The error is ErrNone if bundle, certificate and key are all missing.
func (c *Config) readFiles() (*files, error) {
	f := &files{source: bundleFile}
	var err, keyErr, clientErr error
	f.certificate, err = readFile(filepath.Join(c.Dir, bundleFile))
	f.key = f.certificate
	if errors.Is(err, fs.ErrNotExist) {
		f.source = certificateFile + " and " + keyFile
		f.certificate, err = readFile(filepath.Join(c.Dir, certificateFile))
		f.key, keyErr = readFile(filepath.Join(c.Dir, keyFile))
		if errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading %s: %w", c.Dir, ErrNone)
		}
	}
	if c.ClientCA != "" {
		f.clientCA, clientErr = readFile(c.ClientCA)
	}
	return f, errors.Join(err, keyErr, clientErr)
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

// parse parses f. The result keeps a reference to f.
func (c *Config) parse(f *files) (*material, error) {
	m := &material{files: *f}
	var err error
	if m.pair, err = tls.X509KeyPair(f.certificate, f.key); err != nil {
		return nil, fmt.Errorf("loading %s of %s: %w", f.source, c.Dir, err)
	}
	if c.ClientCA != "" {
		m.clientCA = x509.NewCertPool()
		if !m.clientCA.AppendCertsFromPEM(f.clientCA) {
			return nil, fmt.Errorf("loading TLS_CLIENT_CA=%s: %w", c.ClientCA, errNoClientCert)
		}
	}
	return m, nil
}

func (m *material) notAfter() time.Time { return m.pair.Leaf.NotAfter }
