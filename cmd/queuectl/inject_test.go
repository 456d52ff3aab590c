package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ctl runs queuectl.
func ctl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&complaints)
	code = run(root)
	return code, out.String(), complaints.String()
}

const podText = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n    ports:\n    - containerPort: 80\n"

func TestInjectAndUninjectOnStdin(t *testing.T) {
	code, injected, stderr := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1")
	if code != 0 || !strings.Contains(injected, "image: gate:1") || stderr != "" {
		t.Fatalf("code %d, %s\n%s", code, stderr, injected)
	}
	if code, back, stderr := ctl(t, injected, "uninject", "-f", "-"); code != 0 || back != podText || stderr != "" {
		t.Errorf("code %d, %s\n%s", code, stderr, back)
	}
}

func TestInjectTakesDirectoriesAndKeepsFilesApart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", strings.TrimSuffix(podText, "\n"))
	write("b.yml", "---\n"+podText)
	write("c.txt", "no manifest")
	write("sub/d.yaml", podText)
	code, out, stderr := ctl(t, "", "inject", "-f", dir, "--image", "gate:1")
	if code != 0 || strings.Count(out, "kind: Pod") != 2 || strings.Count("\n"+out, "\n---\n") != 1 || strings.Count(out, "image: gate:1") != 2 {
		t.Errorf("code %d, %s\n%s", code, stderr, out)
	}
	if _, out, _ := ctl(t, "", "inject", "-Rf", dir, "--image", "gate:1"); strings.Count(out, "image: gate:1") != 3 {
		t.Errorf("not recursive:\n%s", out)
	}
	if code, out, stderr := ctl(t, "", "inject", "-wRf", dir, "--image", "gate:1"); code != 0 || out != "" {
		t.Errorf("code %d, %s\n%s", code, stderr, out)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "sub/d.yaml")); !strings.Contains(string(text), "gate:1") {
		t.Error("the file was not written")
	}
	if code, _, _ := ctl(t, "", "uninject", "-wRf", dir); code != 0 {
		t.Error(code)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "sub/d.yaml")); string(text) != podText {
		t.Errorf("got %s", text)
	}
}

func TestDiffShowsWhatWouldChange(t *testing.T) {
	code, out, _ := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1", "--diff")
	if code != 0 || !strings.HasPrefix(out, "--- stdin\n+++ stdin\n@@ ") || !strings.Contains(out, "\n+      image: gate:1\n") || strings.Contains(out, "\n-") {
		t.Errorf("code %d\n%s", code, out)
	}
	if _, out, _ := ctl(t, "kind: X\n", "inject", "-f", "-", "--image", "gate:1", "--diff"); out != "" {
		t.Errorf("got %q", out)
	}
}

func TestWhatIsLeftIsSaidOnStderr(t *testing.T) {
	text := strings.ReplaceAll(podText, "    ports:\n    - containerPort: 80\n", "")
	for _, c := range []struct {
		text string
		args string
		code int
	}{{text, "inject -f -", 0}, {text, "inject -f - --strict", 1}, {"a: [", "inject -f -", 1}, {"a: [", "uninject -f -", 1}} {
		args := strings.Fields(c.args)
		if args[0] == "inject" {
			args = append(args, "--image=x")
		}
		code, out, stderr := ctl(t, c.text, args...)
		if code != c.code || out != c.text || !strings.HasPrefix(stderr, "stdin: ") || !strings.Contains(stderr, "left as it is") {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, stderr)
		}
	}
}

func TestWrongUseIsCode2(t *testing.T) {
	t.Setenv("QUEUEGATE_IMAGE", "")
	for args, want := range map[string]string{
		"inject -f x":            "--image",
		"inject --image x":       "-f: which",
		"inject --imgae x":       "unknown flag: --imgae",
		"injct":                  "did you mean inject?",
		"inject stray":           `argument "stray"`,
		"nothing-like-it at all": "unknown command",
	} {
		if code, _, stderr := ctl(t, "", strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q", args, code, stderr)
		}
	}
	if code, _, stderr := ctl(t, "", "inject", "--image", "x", "-f", "/no/such/file"); code != exitFailed || !strings.Contains(stderr, "/no/such/file") {
		t.Errorf("code %d, %q", code, stderr)
	}
}
