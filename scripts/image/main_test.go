package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const root = "../.."

var madeOf = release{version: "v9.8.7", commit: "0123456789ab", time: v1.Time{Time: time.Unix(1700000000, 0).UTC()},
	revision: "0123456789abcdef0123456789abcdef01234567", fips: "off", builder: "https://builder.test/1"}

var arguments = []string{"-version", madeOf.version, "-commit", madeOf.commit, "-revision", madeOf.revision, "-builder", madeOf.builder, "-time", "1700000000", "-image", "registry.test/gate:pinned"}

// archives builds both images once for all tests and returns their directory.
var archives = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queuegate-image-test-")
	if err != nil {
		return "", err
	}
	return dir, produce(dir, root)
})

func produce(out, root string) error {
	cfg, err := parse(append([]string{"-out", out, "-root", root}, arguments...), io.Discard)
	if err != nil {
		return err
	}
	return run(cfg, io.Discard)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := archives(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func built(t *testing.T) string {
	t.Helper()
	dir, err := archives()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBuildsOfImagesAreReproducible(t *testing.T) {
	first := built(t)
	// Build in another directory, with other file times and another
	// environment.
	other, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		if err := os.CopyFS(filepath.Join(other, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-ldflags=-X=main.buildCommit=other")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("TZ", "Asia/Tokyo")
	if err := produce(second, other); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(programs)*(2+len(platforms)) {
		t.Errorf("%d files: %v", len(files), files)
	}
	for _, f := range files {
		a, err := os.ReadFile(filepath.Join(first, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two builds", f.Name())
		}
	}
}

// unpacked returns the layout in the archive of a program.
func unpacked(t *testing.T, p program) layout.Path {
	t.Helper()
	dir := t.TempDir()
	for name, content := range entries(t, open(t, filepath.Join(built(t), p.name+".tar"))) {
		file := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content.bytes, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestThePushedTagDefaultsToTheVersion(t *testing.T) {
	for argument, want := range map[string]string{
		"registry.test:5000/team/gate":     "registry.test:5000/team/gate:" + madeOf.version,
		"registry.test:5000/team/gate:own": "registry.test:5000/team/gate:own",
	} {
		cfg, err := parse(append([]string{"-push", argument}, arguments...), io.Discard)
		if err != nil || cfg.push.Name() != want {
			t.Errorf("%s: %v, %v, want %s", argument, cfg.push, err, want)
		}
	}
}

func TestThePushedTagOfAFIPSImageHasASuffix(t *testing.T) {
	cfg, err := parse(append([]string{"-push", "registry.test/gate", "-fips", "v1.0.0"}, arguments...), io.Discard)
	if want := "registry.test/gate:" + madeOf.version + "-fips"; err != nil || cfg.push.Name() != want {
		t.Errorf("%v, %v, want %s", cfg.push, err, want)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for argument, want := range map[string]string{
		"-image=queuegate":     `-image "queuegate"`, // no registry, no tag
		"-push=Registry/UPPER": `-push "Registry/UPPER"`,
		"-builder=me":          `-builder "me"`,
		"more":                 `unexpected argument "more"`,
	} {
		if _, err := parse([]string{argument}, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", argument, err, want)
		}
	}
}
