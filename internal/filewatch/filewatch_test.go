package filewatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// volume is a directory with the layout of a Kubernetes volume: file → ..data/file,
// ..data → a directory per version.
type volume struct {
	t   *testing.T
	dir string
}

func (v *volume) write(version, content string) {
	v.t.Helper()
	for _, err := range []error{
		os.Mkdir(filepath.Join(v.dir, version), 0o700),
		os.WriteFile(filepath.Join(v.dir, version, "file"), []byte(content), 0o600),
		os.Symlink(version, filepath.Join(v.dir, "..tmp")),
		os.Rename(filepath.Join(v.dir, "..tmp"), filepath.Join(v.dir, "..data")),
	} {
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

func (v *volume) path() string { return filepath.Join(v.dir, "file") }

// awaitContent reads the file after each change until it holds want.
func awaitContent(t *testing.T, w *Watcher, path, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		if err := w.Watch([]string{path}); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(path); string(text) == want {
			return
		}
		select {
		case <-w.Changed():
		case <-deadline:
			t.Fatalf("no change to %q was reported", want)
		}
	}
}

func TestAFileOfAVolumeIsReportedWhenTheLinkOfTheVolumeIsReplaced(t *testing.T) {
	v := &volume{t, t.TempDir()}
	v.write("..1", "one")
	if err := os.Symlink("..data/file", v.path()); err != nil {
		t.Fatal(err)
	}
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	awaitContent(t, w, v.path(), "one")
	v.write("..2", "two")
	awaitContent(t, w, v.path(), "two")
	v.write("..3", "three")
	awaitContent(t, w, v.path(), "three")
}

func TestAFileCreatedWithItsDirectoryIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	path := filepath.Join(dir, "file")
	if err := w.Watch([]string{path}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	<-w.Changed()
	if err := w.Watch([]string{path}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitContent(t, w, path, "content")
}
