package binary

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

const (
	repository = "https://github.com/queuegate/queuegate"
	// buildType is the URL of the page that describes the parameters of a build.
	buildType = repository + "/blob/main/docs/releases.md#provenance"
)

// DefaultBuilder is the builder of manual builds.
const DefaultBuilder = repository + "/blob/main/Makefile"

// CheckBuilder returns an error unless uri is absolute.
func CheckBuilder(uri string) error {
	if u, err := url.Parse(uri); err != nil || !u.IsAbs() {
		return fmt.Errorf("-builder %q: want an absolute URI", uri)
	}
	return nil
}

// A Subject is a build output: a file or an image.
type Subject struct{ Name, SHA256 string }

// A Run describes the build of the subjects.
type Run struct {
	Target  string // target of make: image or release
	Builder string // URI of the build platform
	Source  Source // sources of all programs; Module and Package are not used
}

// resource is a ResourceDescriptor as in-toto defines it.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			InternalParameters   map[string]string `json:"internalParameters"`
			ResolvedDependencies []resource        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

// Provenance returns an in-toto statement with SLSA provenance v1 about the subjects. The
// subjects contain the programs. Provenance reads the Go version and the dependencies
// from the programs. The same arguments give the same bytes.
func Provenance(run Run, programs [][]byte, subjects []Subject) ([]byte, error) {
	var s statement
	s.Type, s.PredicateType = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
	for _, subject := range subjects {
		s.Subject = append(s.Subject, resource{Name: subject.Name, Digest: map[string]string{"sha256": subject.SHA256}})
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = buildType
	definition.ExternalParameters = map[string]string{
		"source": "git+" + repository, "target": run.Target, "version": run.Source.Version, "GOFIPS140": run.Source.fips(),
	}
	source := resource{URI: "git+" + repository}
	if len(run.Source.Revision) == 40 {
		source.Digest = map[string]string{"gitCommit": run.Source.Revision}
	}
	modules, goVersion, err := modulesOf(programs)
	if err != nil {
		return nil, err
	}
	definition.InternalParameters = map[string]string{"go": goVersion}
	definition.ResolvedDependencies = append([]resource{source}, modules...)
	s.Predicate.RunDetails.Builder.ID = run.Builder
	text, err := json.MarshalIndent(&s, "", "  ")
	return append(text, '\n'), err
}

// modulesOf returns the modules that the programs contain, sorted, and the version of
// Go.
func modulesOf(programs [][]byte) (modules []resource, goVersion string, err error) {
	found := map[string]resource{}
	for _, program := range programs {
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil {
			return nil, "", err
		}
		goVersion = info.GoVersion
		uri := component("stdlib", strings.TrimPrefix(goVersion, "go")).PackageURL
		found[uri] = resource{URI: uri}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if strings.HasPrefix(m.Path, ".") { // the module is part of this repository
				continue
			}
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
			if err != nil {
				return nil, "", fmt.Errorf("checksum of %s: %w", m.Path, err)
			}
			uri := component(m.Path, m.Version).PackageURL
			found[uri] = resource{URI: uri, Digest: map[string]string{"dirHash": hex.EncodeToString(sum)}}
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, found[uri])
	}
	return modules, goVersion, nil
}
