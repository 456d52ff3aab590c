package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

// An image is the image of one program, for all platforms.
type image struct {
	program    program
	index      v1.ImageIndex
	boms       []bom
	provenance provenance
}

// assemble builds the image of a program for all platforms.
func assemble(root string, p program, r release) (*image, error) {
	labels := p.labels(r)
	all := &image{program: p, index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	var programs [][]byte
	for _, platform := range platforms {
		source := p.source(root, r)
		built, err := binary.Build(source, platform.Architecture)
		if err != nil {
			return nil, err
		}
		programs = append(programs, built)
		one, err := single(p, platform, r, built)
		if err != nil {
			return nil, fmt.Errorf("assembling %s for %s: %w", p.name, platform, err)
		}
		one = mutate.Annotations(one, labels).(v1.Image)
		all.index = mutate.AppendManifests(all.index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &platform}})
		b, err := describe(source, platform, built, one)
		if err != nil {
			return nil, fmt.Errorf("describing %s for %s: %w", p.name, platform, err)
		}
		all.boms = append(all.boms, b)
	}
	all.index = mutate.Annotations(all.index, labels).(v1.ImageIndex)
	var err error
	if all.provenance, err = attest(p, root, r, programs, all.index); err != nil {
		return nil, fmt.Errorf("writing the provenance of %s: %w", p.name, err)
	}
	return all, nil
}

func single(p program, platform v1.Platform, r release, built []byte) (v1.Image, error) {
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var err error
	for _, name := range p.files() {
		content, mode := built, int64(0o755)
		if name == rootsFile {
			content, mode = roots(), 0o644
		}
		l, err := layer(name, content, mode, r.time)
		if err != nil {
			return nil, err
		}
		made, err = mutate.Append(made, mutate.Addendum{
			Layer:   l,
			History: v1.History{Created: r.time, CreatedBy: "COPY " + name},
		})
		if err != nil {
			return nil, err
		}
	}
	file, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	file.Created, file.Config = r.time, p.config(r)
	return mutate.ConfigFile(made, file)
}

// layer returns a layer with one file and its parent directories. All belong to root.
func layer(name string, content []byte, mode int64, created v1.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	name = strings.TrimPrefix(name, "/")
	dir := ""
	for part := range strings.SplitSeq(filepath.Dir(name), "/") {
		dir += part + "/"
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: created.Time}); err != nil {
			return nil, err
		}
	}
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: created.Time})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}
