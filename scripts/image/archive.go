package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// write writes an image to an archive, and its bills of materials and provenance to
// files beside the archive. It returns the path of the archive.
func (i *image) write(dir string, tag name.Tag) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, b := range i.boms {
		file := i.program.name + "." + b.platform.OS + "-" + b.platform.Architecture + ".cdx.json"
		if err := os.WriteFile(filepath.Join(dir, file), b.text, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, i.program.name+".provenance.json"), i.provenance.text, 0o644); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(dir, ".layout-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temporary)
	if err := i.layout(temporary, tag); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, i.program.name+".tar")
	return archive, pack(archive, temporary)
}

// layout writes the image and its referrers as an OCI layout. The image's name is in
// annotations, as containerd expects.
func (i *image) layout(dir string, tag name.Tag) error {
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = l.AppendIndex(i.index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          tag.Name(),
		"org.opencontainers.image.ref.name": tag.TagStr(),
	}))
	if err != nil {
		return err
	}
	for _, artifact := range i.referrers() {
		if err := l.AppendImage(artifact); err != nil {
			return err
		}
	}
	return nil
}

// pack writes a tar file of the files below dir. The same files give the same bytes.
func pack(archive, dir string) (err error) {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	w := tar.NewWriter(file)
	// WalkDir visits files in lexical order, so their order in the archive is fixed.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inside + "/", Mode: 0o755})
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		info, err := content.Stat()
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: 0o644, Size: info.Size()}); err != nil {
			return err
		}
		_, err = io.Copy(w, content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
