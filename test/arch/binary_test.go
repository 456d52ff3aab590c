package arch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxBinary is the maximum size of the gate's binary in bytes, because its resident pages
// use memory in every pod. A commit that raises it states the reason.
const maxBinary = 15_300_000

// unlinked maps parts of symbol names to explanations. No symbol in the gate's binary may
// contain such a part. The explanation says which code such a symbol belongs to, and how
// much this code would add to the binary.
var unlinked = map[string]string{
	"net/http.(*http2": "net/http's HTTP/2, 0.5 MB; cmd/queue/tags leaves it out",
}

func TestTheGatesBinaryStaysSmall(t *testing.T) {
	tags, err := os.ReadFile("../../cmd/queue/tags")
	if err != nil {
		t.Fatal(err)
	}
	for _, sources := range []string{"../../cmd/queue", "../../pkg"} { // the result cache of go test tracks these directories; see readTree
		if err := filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				_, err = os.ReadFile(path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	build := func(name, ldflags string) string {
		binary := filepath.Join(t.TempDir(), name)
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.TrimSpace(string(tags)), "-ldflags", ldflags, "-o", binary, "../../cmd/queue")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return binary
	}
	info, err := os.Stat(build("stripped", "-s -w"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxBinary {
		t.Errorf("%d bytes, at most %d", info.Size(), maxBinary)
	}
	symbols, err := exec.Command("go", "tool", "nm", build("queue", "")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for symbol, reason := range unlinked {
		if strings.Contains(string(symbols), symbol) {
			t.Errorf("%s is linked: %s", symbol, reason)
		}
	}
	if !strings.Contains(string(symbols), "net/http.(*conn)") {
		t.Error("the symbols of net/http do not have the names that this test expects")
	}
}
