package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrMissing says that a target's binary is not on this machine.
var ErrMissing = errors.New("missing")

// Find locates the target's binary, or builds it in dir from the tree at root.
// Chosen, if not empty, is a path that the user gave. The error of a binary that
// is not there wraps ErrMissing and says how to get it.
func (t *Target) Find(ctx context.Context, root, dir, chosen string) error {
	switch {
	case t.Name == Direct:
		return nil
	case chosen != "":
		path, err := exec.LookPath(chosen)
		if err != nil {
			return fmt.Errorf("binary of %s: %w", t.Name, err)
		}
		t.path = path
	case t.Build != "":
		t.path = filepath.Join(dir, t.Name)
		tags, _ := os.ReadFile(filepath.Join(root, t.Build, "tags")) // the gate has some
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.TrimSpace(string(tags)), "-ldflags", "-s -w", "-o", t.path, t.Build)
		build.Dir = root
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile does
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", t.Name, err, out)
		}
	default:
		path := ""
		if t.BinaryEnv != "" {
			path = os.Getenv(t.BinaryEnv)
		}
		if path == "" {
			path = t.Binary
		}
		if path == "" {
			return fmt.Errorf("%s: %w; %s", t.Name, ErrMissing, t.Get)
		}
		found, err := exec.LookPath(path)
		if err != nil {
			return fmt.Errorf("%s: %w: %w; %s", t.Name, ErrMissing, err, t.Get)
		}
		t.path = found
	}
	absolute, err := filepath.Abs(t.path)
	if err != nil {
		return fmt.Errorf("binary of %s: %w", t.Name, err)
	}
	t.path = absolute
	return nil
}

// BinarySize returns the size of the binary in bytes, 0 for Direct.
func (t *Target) BinarySize() (int64, error) {
	if t.path == "" {
		return 0, nil
	}
	info, err := os.Stat(t.path)
	if err != nil {
		return 0, fmt.Errorf("binary of %s: %w", t.Name, err)
	}
	return info.Size(), nil
}

// ReadVersion asks the binary for its version; empty if it does not tell.
func (t *Target) ReadVersion(ctx context.Context) string {
	if len(t.Version) == 0 || t.path == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, t.path, t.Version...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
