package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func sorted(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

// generate runs the programs to generate man pages and completions. It returns all
// files of the archive except the programs, by path.
func generate(cfg settings, queue, queuectl []byte) (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "queuegate-share-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, program := range map[string][]byte{"queue": queue, "queuectl": queuectl} {
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o755); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(filepath.Join(dir, "queuectl"), "generate", "--queue", filepath.Join(dir, "queue"), filepath.Join(dir, "share"))
	cmd.Env = []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(cfg.time.Unix(), 10), "TZ=UTC"} // date in the man pages
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("generating man pages and completions: %w\n%s", err, text)
	}
	files := map[string][]byte{}
	pages, err := filepath.Glob(filepath.Join(dir, "share/*/*"))
	if err != nil {
		return nil, err
	}
	for _, path := range pages {
		if files[strings.TrimPrefix(path, dir+"/")], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		if files[name], err = os.ReadFile(filepath.Join(cfg.root, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// pack returns an archive. All files are below one directory, belong to root, and have
// the time of the commit.
func pack(dir string, created time.Time, queue, queuectl []byte, share map[string][]byte) ([]byte, error) {
	files := maps.Clone(share)
	files["bin/queue"], files["bin/queuectl"] = queue, queuectl
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range sorted(files) {
		mode := int64(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + name, Mode: mode, Size: int64(len(files[name])), ModTime: created, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
