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

// A bom is the software bill of materials of one program on one platform.
type bom struct {
	platform v1.Platform
	text     []byte
	artifact v1.Image // refers to the platform's image
}

// describe reads from a program which modules it is made of.
func describe(s binary.Source, platform v1.Platform, program []byte, of v1.Image) (bom, error) {
	text, err := binary.Bill(s, program)
	if err != nil {
		return bom{}, err
	}
	subject, err := partial.Descriptor(of)
	if err != nil {
		return bom{}, err
	}
	artifact, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(text, bomType))
	if err != nil {
		return bom{}, err
	}
	artifact = mutate.ConfigMediaType(artifact, bomType) // the artifact's type
	artifact = mutate.Subject(artifact, *subject).(v1.Image)
	return bom{platform: platform, text: text, artifact: artifact}, nil
}
