package app

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

func TestAFileOfCertificatesThatCannotBeUsedIsIgnoredWithAWarning(t *testing.T) {
	good, empty, missing := certificateOfAServer(t).Certificate, os.DevNull, filepath.Join(t.TempDir(), "missing.pem")
	for _, c := range []struct {
		files    []string
		isUsed   bool
		warnings int
	}{
		{nil, false, 0}, {[]string{good}, true, 0}, {[]string{empty}, false, 1}, {[]string{missing}, false, 1}, {[]string{missing, good}, true, 1}, {[]string{empty, missing}, false, 2},
	} {
		core, logs := logtest.New(zap.WarnLevel)
		var o otlp.Options
		if loadTLS(&o, config.TLSFiles{Certificates: c.files}, "traces", zap.New(core)); (o.RootCAs != nil) != c.isUsed || logs.Len() != c.warnings {
			t.Errorf("%q: used %t, warnings %v", c.files, o.RootCAs != nil, logs.All())
		}
	}
}

func TestTheFirstUsableClientCertificateIsSentToCollectors(t *testing.T) {
	pair := certificateOfAServer(t)
	missing, empty := config.ClientFiles{Certificate: "missing.pem", Key: pair.Key}, config.ClientFiles{Certificate: pair.Certificate, Key: os.DevNull}
	for _, c := range []struct {
		files          []config.ClientFiles
		used, warnings int
	}{{nil, 0, 0}, {[]config.ClientFiles{pair}, 1, 0}, {[]config.ClientFiles{missing, empty, pair}, 1, 2}, {[]config.ClientFiles{empty}, 0, 1}} {
		core, logs := logtest.New(zap.WarnLevel)
		var o otlp.Options
		if loadTLS(&o, config.TLSFiles{Clients: c.files}, "metrics", zap.New(core)); len(o.Certificates) != c.used || logs.Len() != c.warnings {
			t.Errorf("%q: %d certificates, warnings %v", c.files, len(o.Certificates), logs.All())
		}
	}
}

// certificateOfAServer returns the files of the certificate that a TLS server of
// net/http/httptest uses.
func certificateOfAServer(t *testing.T) config.ClientFiles {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := config.ClientFiles{Certificate: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key")}
	for file, block := range map[string]*pem.Block{files.Certificate: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, files.Key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
