package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A block is a marked block of commands in a page.
type block struct {
	line int
	text string
}

const (
	runMark    = "<!-- run -->"
	blockStart = "```sh"
	blockEnd   = "```"
)

// RunPage runs the marked blocks of a page in order, each in a shell in the repository's
// directory.
func RunPage(t *testing.T, repository, page string) {
	t.Helper()
	list, err := blocks(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("no block is marked")
	}
	for _, b := range list {
		run := exec.Command("bash", "-euo", "pipefail", "-c", b.text)
		run.Dir = repository
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%s:%d: %v\n%s\n%s", page, b.line, err, b.text, out)
		}
		t.Logf("line %d:\n%s", b.line, out)
	}
}

func blocks(page string) ([]block, error) {
	content, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var list []block
	lines := strings.Split(string(content), "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) != runMark {
			continue
		}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) == ""; i++ {
		}
		if i == len(lines) || strings.TrimSpace(lines[i]) != blockStart {
			return nil, fmt.Errorf("%s:%d: %s is not followed by a block that starts with %s", page, i+1, runMark, blockStart)
		}
		b := block{line: i + 2}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != blockEnd; i++ {
			b.text += lines[i] + "\n"
		}
		list = append(list, b)
	}
	return list, nil
}

// Rewrite replaces the part of a page between its two marks.
func Rewrite(page, part, text string) error {
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin: "+part+" -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no part between %q and %q", page, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(page, []byte(before+begin+text+end+after), 0o644)
}
