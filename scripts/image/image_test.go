package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// largest is the maximum compressed size of one platform's image.
const largest = 7_000_000

type entry struct {
	header *tar.Header
	bytes  []byte
}

func open(t *testing.T, file string) io.Reader {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func entries(t *testing.T, archive io.Reader) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = entry{h, text}
	}
}

// named returns the image whose annotations contain a name. The first result is the
// descriptor of this image. If the layout has no such image, or more than one, the test
// fails.
func named(t *testing.T, l layout.Path) (v1.Descriptor, v1.ImageIndex) {
	t.Helper()
	index, err := l.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []v1.Descriptor
	for _, d := range manifest.Manifests {
		if d.Annotations["io.containerd.image.name"] != "" {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d images have a name: %v", len(found), manifest.Manifests)
	}
	inner, err := index.ImageIndex(found[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return found[0], inner
}

func imageFor(t *testing.T, index v1.ImageIndex, platform v1.Platform) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		if d.Platform.Equals(platform) {
			one, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return one
		}
	}
	t.Fatalf("no image for %s", platform)
	return nil
}

func TestTheImageMatchesItsDescription(t *testing.T) {
	for _, p := range programs {
		descriptor, index := named(t, unpacked(t, p))
		if got, want := descriptor.Annotations["io.containerd.image.name"], "registry.test/gate"+p.suffix+":pinned"; got != want {
			t.Errorf("the image's name is %s, want %s", got, want)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != len(platforms) || !maps.Equal(manifest.Annotations, p.labels(madeOf)) {
			t.Errorf("%s: index %+v", p.name, manifest)
		}
		for _, platform := range platforms {
			t.Run(p.name+" "+platform.Architecture, func(t *testing.T) {
				checkImage(t, p, platform, imageFor(t, index, platform))
			})
		}
	}
}

func checkImage(t *testing.T, p program, platform v1.Platform, one v1.Image) {
	file, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := p.config(madeOf); !reflect.DeepEqual(file.Config, want) {
		t.Errorf("configuration %+v, want %+v", file.Config, want)
	}
	if file.Config.User != "65532:65532" || file.Architecture != platform.Architecture || file.OS != "linux" || !file.Created.Equal(madeOf.time.Time) {
		t.Errorf("user %s, %s/%s, created %s", file.Config.User, file.OS, file.Architecture, file.Created)
	}
	layers, err := one.Layers()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := one.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	weight := manifest.Config.Size
	content := map[string]entry{}
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		weight += size
		archive, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(content, entries(t, archive))
	}
	t.Logf("%d bytes compressed", weight)
	if weight > largest {
		t.Errorf("%d bytes compressed, want at most %d", weight, largest)
	}
	checkFiles(t, p, content)
	binary := content[strings.TrimPrefix(binDir+p.name, "/")].bytes
	checkBinary(t, platform, binary)
	if dirs := strings.Split(strings.TrimPrefix(file.Config.Env[0], "PATH="), ":"); !slices.Contains(dirs, path.Dir(file.Config.Entrypoint[0])) {
		t.Errorf("%s is not on the path %q", file.Config.Entrypoint[0], dirs)
	}
}

// checkFiles checks owners and modes: the image's user must not be able to
// write any file.
func checkFiles(t *testing.T, p program, content map[string]entry) {
	t.Helper()
	var files []string
	for name, e := range content {
		if e.header.Uid != 0 || e.header.Gid != 0 || e.header.Mode&0o022 != 0 {
			t.Errorf("%s: owner %d:%d, mode %o", name, e.header.Uid, e.header.Gid, e.header.Mode)
		}
		if !e.header.ModTime.Equal(madeOf.time.Time) {
			t.Errorf("%s: %s", name, e.header.ModTime)
		}
		if e.header.Typeflag == tar.TypeReg {
			files = append(files, "/"+name)
		}
	}
	slices.Sort(files)
	if want := slices.Sorted(slices.Values(p.files())); !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if p.roots {
		if n := bytes.Count(content[rootsFile[1:]].bytes, []byte("BEGIN CERTIFICATE")); n < 50 {
			t.Errorf("%d certificate authorities", n)
		}
	}
}

// checkBinary fails for a binary that needs a loader or is for another
// architecture.
func checkBinary(t *testing.T, platform v1.Platform, binary []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[platform.Architecture]
	if file.Machine != want {
		t.Errorf("machine %s, want %s", file.Machine, want)
	}
	for _, s := range file.Progs {
		if s.Type == elf.PT_INTERP || s.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has %s", s.Type)
		}
	}
}
