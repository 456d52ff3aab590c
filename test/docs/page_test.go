package docs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block has the commands of a code block.
type block struct {
	line   int
	text   string
	port   string // the block runs until Ctrl-C and listens on this port; "" = it runs to its end
	reason string // reason not to run the block here; "" = it is run
}

// languages are the allowed languages of code fences.
var languages = []string{"sh", "go", "yaml", "json", "ini", "dockerfile", "js", "text"}

var (
	mark      = regexp.MustCompile(`^<!-- (run|until|not run)\b(.*) -->$`)
	untilMark = regexp.MustCompile(`^ Ctrl-C, on (\d+)$`)
	notMark   = regexp.MustCompile(`^: (.+)$`)
)

// blocks returns the sh blocks of a page. Indented fences, other languages and unknown
// marks are errors, because such commands would never be checked.
func blocks(text string) (list []block, err error) {
	var next *block // block of the latest mark
	lines := strings.Split(text, "\n")
	before := "" // previous line
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch m := mark.FindStringSubmatch(line); {
		case m != nil:
			if next, err = read(m[1], m[2]); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			b, begin, language := block{line: i + 2}, i, strings.TrimPrefix(line, "```")
			if !slices.Contains(languages, language) {
				return nil, fmt.Errorf("line %d: %q: want ``` and one of %q, at the beginning of the line", i+1, line, languages)
			}
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.text += lines[i] + "\n"
			}
			if i == len(lines) {
				return nil, fmt.Errorf("line %d: the block has no end", begin+1)
			}
			if next != nil {
				if language != "sh" {
					return nil, fmt.Errorf("line %d: a mark before a block of %s", begin+1, language)
				}
				b.port, b.reason, next = next.port, next.reason, nil
			}
			if language == "sh" {
				list = append(list, b)
			}
		case strings.TrimSpace(line) != "" && next != nil:
			return nil, fmt.Errorf("line %d: a mark is not followed by a block", i+1)
		case strings.HasPrefix(line, "    ") && before == "" && !inList(lines[:i]):
			return nil, fmt.Errorf("line %d: a block without fences: %q", i+1, line)
		}
		before = strings.TrimSpace(lines[min(i, len(lines)-1)])
	}
	if next != nil {
		return nil, fmt.Errorf("a mark at the end")
	}
	return list, nil
}

func read(kind, rest string) (*block, error) {
	switch kind {
	case "run":
		if rest == "" {
			return &block{reason: "test/cluster runs it"}, nil
		}
	case "until":
		if m := untilMark.FindStringSubmatch(rest); m != nil {
			return &block{port: m[1]}, nil
		}
	case "not run":
		if m := notMark.FindStringSubmatch(rest); m != nil {
			return &block{reason: m[1]}, nil
		}
	}
	return nil, fmt.Errorf("unknown mark %q: see the package documentation", kind+rest)
}

// inList reports whether the next paragraph belongs to an item of a list, and must be
// indented.
func inList(before []string) bool {
	for _, line := range slices.Backward(before) {
		if line != "" && line[0] != ' ' {
			return regexp.MustCompile(`^([-*]|\d+\.) `).MatchString(line)
		}
	}
	return false
}

func pages(t *testing.T) map[string][]block {
	t.Helper()
	all := map[string][]block{}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "bench/README.md", "config/README.md"} {
		list, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(repository, path)
			if err != nil {
				t.Fatal(err)
			}
			list, err := blocks(string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(list) > 0 {
				all[name] = list
			}
		}
	}
	if len(all) < 5 {
		t.Fatalf("only %d pages have commands", len(all))
	}
	return all
}

func TestCommandBlocksInTheDocumentationAreParsed(t *testing.T) {
	list, err := blocks("text\n\n```sh\necho 1\n```\n\n<!-- until Ctrl-C, on 8012 -->\n```sh\nserve\n```\n<!-- not run: root -->\n\n```sh\nrm\n```\n```go\nx\n```\n- item\n\n    of a list\n")
	want := []block{{line: 4, text: "echo 1\n"}, {line: 9, text: "serve\n", port: "8012"}, {line: 14, text: "rm\n", reason: "root"}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, invalid := range []string{
		"```\nls\n```\n", "```bash\nls\n```\n", "```sh\nls\n", "- x\n  ```sh\n  ls\n  ```\n", "text\n\n    ls\n",
		"<!-- not run -->\n```sh\nls\n```\n", "<!-- until it ends -->\n```sh\nls\n```\n", "<!-- run -->\ntext\n", "<!-- run -->\n```go\n```\n", "<!-- run -->\n",
	} {
		if list, err := blocks(invalid); err == nil {
			t.Errorf("%q: %+v", invalid, list)
		}
	}
}
