package main

import (
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

const (
	// user is numeric, because the kubelet rejects a user name with runAsNonRoot.
	user      = "65532:65532"
	search    = "/usr/local/bin:/usr/bin:/bin"
	binDir    = "/usr/local/bin/"
	rootsFile = "/etc/ssl/certs/ca-certificates.crt"
)

// platforms are the platforms for which an image is built.
var platforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
}

// A program has its own image.
type program struct {
	name   string // name of the binary and of the archive
	suffix string // suffix of the image's name
	title  string
	about  string
	ports  []int
	roots  bool // the image contains certificate authorities
}

var programs = []program{
	{
		name: "queue", title: "queuegate",
		about: "Request gate that stands in front of a serverless container in its own pod",
		ports: []int{8012, 8022, 8112, 9090, 9091},
		roots: true, // for TLS connections to collectors of traces and metrics
	},
	{
		name: "demo", suffix: "-demo", title: "queuegate-demo",
		about: "User container that echoes, waits, streams and fails on request, to put behind queuegate",
		ports: []int{8080},
	},
}

// A release describes the sources from which images are built.
type release struct {
	version, commit string
	revision, fips  string  // fields of binary.Source
	builder         string  // URI of the build platform
	time            v1.Time // time of the commit, and of all files in the image
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

// config returns the part of the image configuration that runtimes use.
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
