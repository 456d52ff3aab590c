package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// build compiles a program in the module at root and returns its bytes. What
// the environment could add to the binary is set aside.
func build(root string, p program, platform v1.Platform, r release) ([]byte, error) {
	dir, err := os.MkdirTemp("", "queuegate-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, p.name)
	flags := "-s -w"
	if p.name == "queue" {
		flags += " -X main.buildVersion=" + r.version + " -X main.buildCommit=" + r.commit
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./cmd/"+p.name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building cmd/%s for %s: %w\n%s", p.name, platform, err, text)
	}
	return os.ReadFile(binary)
}

// roots are Mozilla's certificate authorities, less those that are trusted
// under conditions that the file has no place for.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return text.Bytes()
}
