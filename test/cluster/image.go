package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// An image has a single static program.
type image struct {
	name, program, path string // tag, file on the host, entry point in the image
}

// write writes the image for containerd: a tar archive with one layer, a configuration
// and a manifest.
func (i image) write(path string) error {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return err
	}
	layer, err := archive([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: []byte("nonroot:x:65532:65532::/:\n")},
		{name: "tmp/", mode: 0o1777},
		{name: filepath.Dir(i.path)[1:] + "/", mode: 0o755},
		{name: i.path[1:], mode: 0o755, content: program},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	type object = map[string]any
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": object{"User": "65532:65532", "Env": []string{"PATH=" + filepath.Dir(i.path)}, "Entrypoint": []string{i.path}, "WorkingDir": "/"},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{i.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	content, err := archive([]file{
		{name: "manifest.json", mode: 0o644, content: manifest},
		{name: "config.json", mode: 0o644, content: config},
		{name: "layer.tar", mode: 0o644, content: layer},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	return nil
}

// A file is a directory if its name ends in a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		head := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.name[len(f.name)-1] == '/' {
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
