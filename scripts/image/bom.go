package main

import (
	"bytes"
	"debug/buildinfo"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const bomType = types.MediaType("application/vnd.cyclonedx+json")

// A bom is the software bill of materials of one program on one platform.
type bom struct {
	platform v1.Platform
	text     []byte
	artifact v1.Image // refers to the platform's image
}

// describe reads from a binary which modules it is made of.
func describe(p program, platform v1.Platform, r release, binary []byte, of v1.Image) (bom, error) {
	text, err := inventory(p, r, binary)
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

// inventory is the bill as CycloneDX in JSON, in the same bytes each time: no
// serial number, and the commit's time.
func inventory(p program, r release, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	licence := cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	components := []cdx.Component{goComponent(info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, moduleComponent(m.Path, m.Version))
	}
	main := moduleComponent(info.Main.Path, r.version)
	main.Type, main.Name, main.Licenses = cdx.ComponentTypeApplication, info.Path, &licence
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: r.time.UTC().Format("2006-01-02T15:04:05Z"), Component: &main}
	document.Components = &components
	document.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON)
	err = encoder.SetPretty(true).EncodeVersion(document, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

func moduleComponent(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, PackageURL: url, Name: path, Version: version}
}

// goComponent is the standard library under the name that scanners look for.
func goComponent(version string) cdx.Component {
	return moduleComponent("stdlib", strings.TrimPrefix(version, "go"))
}
