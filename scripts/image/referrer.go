package main

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

const bomType = types.MediaType("application/vnd.cyclonedx+json")

// A bom is the software bill of materials of one program for one platform.
type bom struct {
	platform v1.Platform
	text     []byte
	artifact v1.Image // OCI artifact of text, whose subject is this platform's image
}

// describe returns the bill of materials of a program. The last parameter is the image
// that contains the program.
func describe(s binary.Source, platform v1.Platform, program []byte, img v1.Image) (bom, error) {
	text, err := binary.Bill(s, program)
	if err != nil {
		return bom{}, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return bom{}, err
	}
	artifact, err := referrer(text, bomType, *subject)
	return bom{platform: platform, text: text, artifact: artifact}, err
}

// referrer returns an OCI artifact that refers to the given subject. The artifact has one
// layer, which contains text.
func referrer(text []byte, mediaType types.MediaType, subject v1.Descriptor) (v1.Image, error) {
	artifact, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(text, mediaType))
	if err != nil {
		return nil, err
	}
	artifact = mutate.ConfigMediaType(artifact, mediaType) // type of the artifact
	return mutate.Subject(artifact, subject).(v1.Image), nil
}

const provenanceType = types.MediaType("application/vnd.in-toto+json")

// provenance is the SLSA provenance of one program for all platforms.
type provenance struct {
	text     []byte
	artifact v1.Image // OCI artifact of text, whose subject is the index of all platforms
}

// referrers returns the artifacts that refer to the image.
func (i *image) referrers() (all []v1.Image) {
	for _, b := range i.boms {
		all = append(all, b.artifact)
	}
	return append(all, i.provenance.artifact)
}

// attest creates the provenance of an index and of the images in it.
func attest(p program, root string, r release, programs [][]byte, imageIndex v1.ImageIndex) (provenance, error) {
	index, err := partial.Descriptor(imageIndex)
	if err != nil {
		return provenance{}, err
	}
	manifest, err := imageIndex.IndexManifest()
	if err != nil {
		return provenance{}, err
	}
	subjects := []binary.Subject{{Name: p.title, SHA256: index.Digest.Hex}}
	for _, d := range manifest.Manifests {
		subjects = append(subjects, binary.Subject{Name: p.title + "/" + d.Platform.String(), SHA256: d.Digest.Hex})
	}
	text, err := binary.Provenance(binary.Run{Target: "image", Builder: r.builder, Source: p.source(root, r)}, programs, subjects)
	if err != nil {
		return provenance{}, err
	}
	artifact, err := referrer(text, provenanceType, *index)
	return provenance{text, artifact}, err
}
