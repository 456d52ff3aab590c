package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/queuegate/queuegate/scripts/image/binary/provenancetest"
)

const root = "../../.."

func configured(out, root string) settings {
	return settings{root: root, out: out, version: "v0.1.0", commit: "0123456789ab", time: time.Unix(1700000000, 0).UTC(),
		revision: "0123456789abcdef0123456789abcdef01234567", fips: "off", builder: "https://builder.test/1"}
}

// made builds one release for all tests.
var made = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queuegate-release-test-")
	if err != nil {
		return "", err
	}
	return dir, run(configured(dir, root), io.Discard)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := made(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func released(t *testing.T) string {
	t.Helper()
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Build in another directory, with other file times and another environment.
func TestReleasesAreReproducible(t *testing.T) {
	first, second, other := released(t), t.TempDir(), t.TempDir()
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		if err := os.CopyFS(filepath.Join(other, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "CHANGELOG.md"} {
		if err := os.WriteFile(filepath.Join(other, name), read(t, filepath.Join(root, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"GOAMD64": "v3", "GOFLAGS": "-ldflags=-X=main.buildCommit=other", "CGO_ENABLED": "1", "TZ": "Asia/Tokyo",
		"CONTAINER_CONCURRENCY": "7", "LANG": "de_DE.UTF-8",
	} {
		t.Setenv(name, value)
	}
	if err := run(configured(second, other), io.Discard); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	// For two architectures and two programs there are 2 archives, 4 bills of materials,
	// 1 provenance and 1 file of checksums.
	if len(files) != 8 {
		t.Errorf("%d files: %v", len(files), files)
	}
	for _, f := range files {
		if !bytes.Equal(read(t, filepath.Join(first, f.Name())), read(t, filepath.Join(second, f.Name()))) {
			t.Errorf("%s differs", f.Name())
		}
	}
}

func TestAnArchiveHasAllFilesOfThePrograms(t *testing.T) {
	for _, architecture := range architectures {
		base := "queuegate_0.1.0_linux_" + architecture
		files := unpack(t, filepath.Join(released(t), base+".tar.gz"))
		for _, name := range []string{
			"bin/queue", "bin/queuectl", "LICENSE", "CHANGELOG.md", "share/man1/queue.1", "share/man1/queuectl-inject.1",
			"share/completions/queue.bash", "share/completions/_queue", "share/completions/queuectl.fish",
		} {
			if len(files[base+"/"+name]) == 0 {
				t.Errorf("%s has no %s", base, name)
			}
		}
		if man := string(files[base+"/share/man1/queue.1"]); !strings.Contains(man, "v0.1.0") {
			t.Error("the man page has another version")
		}
		for _, name := range []string{"queue", "queuectl"} {
			program, err := elf.NewFile(bytes.NewReader(files[base+"/bin/"+name]))
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]; program.Machine != want {
				t.Errorf("%s is for %v", name, program.Machine)
			}
			if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
				t.Errorf("%s needs %q, %v", name, libraries, err)
			}
		}
	}
}

func TestTheProgramsPrintTheirVersion(t *testing.T) {
	base := "queuegate_0.1.0_linux_" + runtime.GOARCH
	files := unpack(t, filepath.Join(released(t), base+".tar.gz"))
	for _, name := range []string{"queue", "queuectl"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, files[base+"/bin/"+name], 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "v0.1.0") || !strings.Contains(string(out), "0123456789ab") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

func TestChecksumsAndBillsMatchTheFiles(t *testing.T) {
	dir := released(t)
	sums := strings.TrimSpace(string(read(t, filepath.Join(dir, "SHA256SUMS"))))
	lines := strings.Split(sums, "\n")
	if len(lines) != 7 {
		t.Errorf("%d checksums", len(lines))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, filepath.Join(dir, name)))); got != sum {
			t.Errorf("%s: %s, want %s", name, got, sum)
		}
	}
	for name, module := range map[string]string{"queue": "go.uber.org/zap", "queuectl": "github.com/spf13/cobra"} {
		bill := new(cdx.BOM)
		text := read(t, filepath.Join(dir, "queuegate_0.1.0_linux_arm64."+name+".cdx.json"))
		if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(bill); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range *bill.Components {
			found = found || c.Name == module
			if strings.HasPrefix(c.Name, ".") || c.Version == "(devel)" {
				t.Errorf("%s: component %s %s is a directory of this machine", name, c.Name, c.Version)
			}
		}
		if !found || bill.Metadata.Component.Version != "v0.1.0" {
			t.Errorf("%s: %+v, with %s: %v", name, bill.Metadata.Component, module, found)
		}
	}
}

func TestAVersionWithoutAChangelogSectionIsRejected(t *testing.T) {
	cfg := configured(t.TempDir(), root)
	cfg.version = "v99.0.0"
	if err := run(cfg, io.Discard); err == nil || !strings.Contains(err.Error(), "## [99.0.0]") {
		t.Error(err)
	}
}

func TestAReleaseNeedsTheSameVersionOfGrpcgate(t *testing.T) {
	cfg := settings{root: t.TempDir(), version: "v0.2.0"}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(cfg.root, grpcgateModule)), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"CHANGELOG.md": "# Changelog\n\n## [0.2.0] - 2026-12-01\n",
		grpcgateModule: "module x\n\nrequire (\n\tgithub.com/queuegate/queuegate v0.1.0\n)\n",
	} {
		if err := os.WriteFile(filepath.Join(cfg.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := described(cfg); err == nil || !strings.Contains(err.Error(), "pkg/embed/grpcgate/go.mod does not require v0.2.0") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.root, grpcgateModule), []byte("module x\n\nrequire github.com/queuegate/queuegate v0.2.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := described(cfg); err != nil {
		t.Error(err)
	}
}

func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.ModTime.Unix() != 1700000000 {
			t.Errorf("%+v", header)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheProvenanceNamesAllFilesOfTheRelease(t *testing.T) {
	dir := released(t)
	text := read(t, filepath.Join(dir, "queuegate_0.1.0.provenance.json"))
	s, p := provenancetest.Read(t, text)
	named := map[string]string{}
	for _, subject := range s.GetSubject() {
		named[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !strings.HasSuffix(name, ".provenance.json") && named[name] != sum {
			t.Errorf("%s: digest %q, want %s", name, named[name], sum)
		}
	}
	digests := map[string]map[string]string{}
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		uri, _, _ := strings.Cut(d.GetUri(), "@")
		digests[uri] = d.GetDigest()
	}
	for _, module := range []string{"go.uber.org/zap", "github.com/spf13/cobra"} { // a module of the gate, and one of queuectl
		if len(digests["pkg:golang/"+module]["dirHash"]) != 64 {
			t.Errorf("no hash of %s among %v", module, digests)
		}
	}
	if got := digests["git+https://github.com/queuegate/queuegate"]["gitCommit"]; got != "0123456789abcdef0123456789abcdef01234567" {
		t.Errorf("commit %q", got)
	}
	checkPrivate(t, text)
}

// checkPrivate fails if text contains the name of this machine or one of its
// directories.
func checkPrivate(t *testing.T, text []byte) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	directory, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{`"` + host, directory, os.TempDir()} {
		if bytes.Contains(text, []byte(private)) {
			t.Errorf("%q is in the provenance", private)
		}
	}
}
