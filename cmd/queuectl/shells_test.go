package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// lines are incomplete command lines. The completions of each must include the word want.
var lines = []struct{ line, want string }{
	{"queue dr", "drain"}, {"queue --user-p", "--user-port"}, {"queue probe --a", "--as"}, {"queue probe --as a", "activator"},
	{"queue help pr", "probe"}, {"queuectl inj", "inject"}, {"queuectl inject --serv", "--services"},
}

// shell returns the path of a shell, or skips the test.
func shell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

func complete(t *testing.T, dir, home, shell string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(shell, args...)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + home, "TERM=dumb", "LC_ALL=C.UTF-8"}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, text)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
}

func TestCompletionsWorkInFish(t *testing.T) {
	fish := shell(t, "fish")
	dir, bin, home := generatedDir(t), filepath.Dir(queuectl), t.TempDir()
	script := "source " + dir + "/completions/queue.fish; source " + dir + "/completions/queuectl.fish; complete -C $argv[1]"
	for _, c := range lines {
		if completions := complete(t, bin, home, fish, "--no-config", "-c", script, c.line); !slices.Contains(completions, c.want) {
			t.Errorf("%q: %q lacks %s", c.line, completions, c.want)
		}
	}
}

// zshSetup loads the completions, and makes Ctrl-X print the line.
const zshSetup = `
fpath=(DIR/completions $fpath); autoload -Uz compinit; compinit -u -d $HOME/dump
say() { print -r -- "<$BUFFER>"; BUFFER= }; zle -N say; bindkey '^X' say; bindkey '^I' complete-word
PS1= ; print READY`

func TestCompletionsWorkInZsh(t *testing.T) {
	zsh := shell(t, "zsh")
	cmd := exec.Command(zsh, "-f", "-i")
	cmd.Env = []string{"PATH=" + filepath.Dir(queuectl) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb", "LC_ALL=C.UTF-8"}
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = terminal.Close()
	}()
	if err := terminal.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	// readUntil reads from the terminal until the output ends with the given text. It
	// returns the output without this text.
	readUntil := func(end string) string {
		var output []byte
		for one := make([]byte, 1); !strings.HasSuffix(string(output), end); output = append(output, one[0]) {
			if _, err := terminal.Read(one); err != nil {
				t.Fatalf("%v, after %q", err, output)
			}
		}
		return strings.TrimSuffix(string(output), end)
	}
	say := func(text string) {
		if _, err := terminal.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	setup := filepath.Join(t.TempDir(), "setup")
	if err := os.WriteFile(setup, []byte(strings.ReplaceAll(zshSetup, "DIR", generatedDir(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	say("source " + setup + "\n")
	readUntil("READY\r\n")
	for _, c := range lines {
		say(c.line + "\t\x18")
		readUntil("<")
		line := readUntil(">")
		if fields := strings.Fields(line); !slices.Contains(fields, c.want) {
			t.Errorf("%q becomes %q, without %s", c.line, line, c.want)
		}
	}
}

func generatedDir(t *testing.T) string {
	dir, _ := generated(t)
	return dir
}
