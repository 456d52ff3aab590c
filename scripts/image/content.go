package main

import (
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

const (
	// user is numeric: with runAsNonRoot the kubelet rejects an image whose
	// user is a name, because it cannot tell whether that is root.
	user      = "65532:65532"
	search    = "/usr/local/bin:/usr/bin:/bin"
	binDir    = "/usr/local/bin/"
	rootsFile = "/etc/ssl/certs/ca-certificates.crt"
)

// platforms are the platforms of each index.
var platforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
}

// A program has its own image.
type program struct {
	name   string // of the binary, and of the archive
	suffix string // of the image's name
	title  string
	about  string
	ports  []int
	roots  bool // it is a TLS client and needs certificate authorities
}

var programs = []program{
	{
		name: "queue", title: "queuegate",
		about: "Request gate that stands in front of a serverless container in its own pod",
		ports: []int{8012, 8022, 8112, 9090, 9091},
		roots: true, // for collectors of traces and metrics
	},
	{
		name: "demo", suffix: "-demo", title: "queuegate-demo",
		about: "User container that echoes, waits, streams and fails on request, to put behind queuegate",
		ports: []int{8080},
	},
}

// A release describes the sources of an image.
type release struct {
	version, commit string
	revision, fips  string  // as in binary.Source
	builder         string  // URI
	time            v1.Time // of the commit: all times in the image
}

func (p program) labels(r release) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       p.title,
		"org.opencontainers.image.description": p.about,
		"org.opencontainers.image.source":      "https://github.com/queuegate/queuegate",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
	}
}

func (p program) source(root string, r release) binary.Source {
	return binary.Source{
		Module: root, Package: "./cmd/" + p.name, Version: r.version, Commit: r.commit, Revision: r.revision, FIPS: r.fips, Time: r.time.Time,
		Stamped: p.name == "queue",
	}
}

// config returns the image configuration for runtimes.
func (p program) config(r release) v1.Config {
	ports := map[string]struct{}{}
	for _, port := range p.ports {
		ports[strconv.Itoa(port)+"/tcp"] = struct{}{}
	}
	return v1.Config{
		User:         user,
		Env:          []string{"PATH=" + search},
		Entrypoint:   []string{binDir + p.name},
		WorkingDir:   "/",
		ExposedPorts: ports,
		Labels:       p.labels(r),
	}
}

// files returns the paths in the image, in the order of its layers.
func (p program) files() []string {
	if p.roots {
		return []string{rootsFile, binDir + p.name}
	}
	return []string{binDir + p.name}
}
