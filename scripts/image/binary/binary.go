// Package binary builds the programs of a release and describes their contents.
// The same sources and Go version give the same bytes.
package binary

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// A Source describes the sources of a program.
type Source struct {
	Module  string // directory of the module
	Package string // relative to Module, such as ./cmd/queue
	Version string // version of the sources
	Commit  string

	Revision string // full hash of the commit; "" = unknown
	// FIPS is the linked version of Go's FIPS 140-3 module, such as v1.0.0; "" = none.
	FIPS string

	Stamped bool      // link the version and the commit into the program
	Time    time.Time // time of the commit
}

// fips returns the value of GOFIPS140.
func (s *Source) fips() string { return cmp.Or(s.FIPS, "off") }

// Build compiles a program for linux. It ignores build settings in the environment.
func Build(s Source, architecture string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "queuegate-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "program")
	flags := "-s -w"
	if s.Stamped {
		flags += " -X main.buildVersion=" + s.Version + " -X main.buildCommit=" + s.Commit
	}
	tags, err := os.ReadFile(filepath.Join(s.Module, s.Package, "tags"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.TrimSpace(string(tags)), "-ldflags", flags, "-o", file, s.Package)
	cmd.Dir = s.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOWORK=off", "GOFIPS140="+s.fips())
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s for %s: %w\n%s", s.Package, architecture, err, text)
	}
	return os.ReadFile(file)
}

// Bill returns the software bill of materials of a program in CycloneDX's JSON. It is
// reproducible.
func Bill(s Source, program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	licence := cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	// Scanners look for the standard library under this name.
	components := []cdx.Component{component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		switch {
		case m.Replace == nil:
			components = append(components, component(m.Path, m.Version))
		case strings.HasPrefix(m.Replace.Path, "."): // the module is part of this repository
			components = append(components, component(m.Path, s.Version))
		default:
			components = append(components, component(m.Replace.Path, m.Replace.Version))
		}
	}
	main := component(info.Main.Path, s.Version)
	main.Type, main.Name, main.Licenses = cdx.ComponentTypeApplication, info.Path, &licence
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: s.Time.UTC().Format("2006-01-02T15:04:05Z"), Component: &main}
	document.Components = &components
	document.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON)
	err = encoder.SetPretty(true).EncodeVersion(document, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, PackageURL: url, Name: path, Version: version}
}
