package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func generated(t *testing.T) (dir string, read func(name string) string) {
	t.Helper()
	dir = t.TempDir()
	if code, _, stderr := ctl(t, "", "generate", dir, "--queue", queue); code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	return dir, func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestEverySettingOfTheGateIsInItsManPageAndCompletions(t *testing.T) {
	_, read := generated(t)
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`.* \\| `--([a-z0-9-]+)` \\|").FindAllStringSubmatch(string(docs), -1)
	if len(rows) < 60 {
		t.Fatalf("only %d settings", len(rows))
	}
	man := strings.ReplaceAll(read("man1/queue.1"), `\-`, "-")
	for _, row := range rows {
		variable, flag := row[1], row[2]
		if !strings.Contains(man, "\\fB--"+flag+"\\fR") || !strings.Contains(man, ", "+variable) {
			t.Errorf("the man page lacks --%s, %s", flag, variable)
		}
		for name, part := range map[string]string{"completions/queue.bash": " --" + flag, "completions/_queue": "'--" + flag + "[", "completions/queue.fish": " -l " + flag + " "} {
			if !strings.Contains(read(name), part) {
				t.Errorf("%s lacks --%s", name, flag)
			}
		}
	}
	for _, part := range []string{".SS queue probe\n", ".SS queue drain\n", `\fIkubelet|activator|ingress\fR`, "[60]", ".SS Admission\n"} {
		if !strings.Contains(man, part) {
			t.Errorf("the man page lacks %q", part)
		}
	}
	for _, name := range []string{"queuectl.1", "queuectl-inject.1", "queuectl-uninject.1", "queuectl-probe.1"} {
		if !strings.Contains(read("man1/"+name), ".SH NAME") {
			t.Errorf("%s is no man page", name)
		}
	}
}

func TestBashCompletesCommandsFlagsAndValues(t *testing.T) {
	dir, _ := generated(t)
	complete := func(words ...string) string {
		t.Helper()
		script := `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _queue; echo "${COMPREPLY[*]}"`
		text, err := exec.Command("bash", append([]string{"-c", script, "bash", filepath.Join(dir, "completions/queue.bash")}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", words, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	for _, c := range []struct{ line, want string }{
		{"queue dr", "drain"}, {"queue --user-p", "--user-port"}, {"queue --port 1 --user-p", "--user-port"}, {"queue probe --a", "--as"},
		{"queue probe --as a", "activator"}, {"queue drain --d", "--drain-socket"}, {"queue drain --user", ""}, {"queue help pr", "probe"},
		{"queue --client-half-close c", "close"}, {"queue --port ", ""},
	} {
		words := strings.Split(c.line, " ")
		if got := complete(words...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.line, got, c.want)
		}
	}
	for _, name := range []string{"queue.bash", "queuectl.bash"} {
		if text, err := exec.Command("bash", "-n", filepath.Join(dir, "completions", name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestGeneratedFilesAreReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	_, first := generated(t)
	_, second := generated(t)
	for _, name := range []string{"man1/queue.1", "man1/queuectl.1", "completions/queue.bash", "completions/_queue", "completions/queuectl.bash"} {
		if first(name) != second(name) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestGenerateWithoutAGateFailsClearly(t *testing.T) {
	for _, path := range []string{"/no/such/queue", "/bin/true"} {
		if code, _, stderr := ctl(t, "", "generate", t.TempDir(), "--queue", path); code != exitFailed || !strings.Contains(stderr, path) {
			t.Errorf("%s: code %d, %q", path, code, stderr)
		}
	}
}
