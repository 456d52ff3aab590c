package app

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"
)

func TestAFileOfCertificatesThatCannotBeUsedIsIgnoredWithAWarning(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	dir := t.TempDir()
	good, empty := filepath.Join(dir, "good.pem"), filepath.Join(dir, "empty.pem")
	for file, text := range map[string][]byte{good: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), empty: nil} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file     string
		isUsed   bool
		warnings int
	}{{"", false, 0}, {good, true, 0}, {empty, false, 1}, {filepath.Join(dir, "missing.pem"), false, 1}} {
		core, logs := logtest.New(zap.WarnLevel)
		if roots := loadRoots(c.file, "traces", zap.New(core)); (roots != nil) != c.isUsed || logs.Len() != c.warnings {
			t.Errorf("%q: used %t, warnings %v", c.file, roots != nil, logs.All())
		}
	}
}
