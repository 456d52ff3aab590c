package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Write writes report.md and report.html into a directory, which it makes if
// need be.
func Write(dir string, run *sample.Run, goals ...Goal) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	page, err := HTML(run, goals...)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for name, text := range map[string]string{"report.md": Markdown(run, goals...), "report.html": page} {
		if err := writeFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

// writeFile replaces a file as a whole or not at all.
func writeFile(name string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(text); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(mode); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
