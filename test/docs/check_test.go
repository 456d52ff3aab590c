package docs

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Blocks that are never run must be valid scripts with existing commands.
func TestUnexecutedBlocksInTheDocumentationUseExistingCommands(t *testing.T) {
	all := pages(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, b := range all[name] {
			if b.reason == "" {
				continue
			}
			syntax := shell(context.Background(), "")
			syntax.Args = []string{"bash", "-n", "-c", b.text}
			if out, err := syntax.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
			for _, command := range commands(b.text) {
				if err := exists(command); err != nil {
					t.Errorf("%s:%d: %s: %v", name, b.line, strings.Join(command, " "), err)
				}
			}
		}
	}
}

var (
	hereText  = regexp.MustCompile(`(?ms)<<'(\w+)'.*?^\w+$`)
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	remark    = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	separator = regexp.MustCompile(`\n|\||&&|;`)
)

// commands splits a script into commands, and each command into words. It knows only the
// shell syntax of the pages. Quoted words become QUOTED.
func commands(script string) (list [][]string) {
	script = hereText.ReplaceAllString(script, "")
	script = quoted.ReplaceAllString(script, "QUOTED")
	script = remark.ReplaceAllString(script, "")
	script = strings.ReplaceAll(script, "\\\n", " ")
	for _, command := range separator.Split(script, -1) {
		if fields := strings.Fields(command); len(fields) > 0 {
			list = append(list, fields)
		}
	}
	return list
}

// exists checks commands of queue, queuectl and make. It returns an error if the command
// uses a subcommand, flag, make target or make variable that does not exist.
func exists(args []string) error {
	switch filepath.Base(args[0]) {
	case "queue":
		return known(args[1:], "bin/queue")
	case "queuectl":
		return known(args[1:], "bin/queuectl")
	case "make":
		return targets(args[1:])
	}
	return nil
}

// known checks flags and subcommands against the program's help.
func known(args []string, program string) error {
	help := []string{program}
	if len(args) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(args[0]) {
		help, args = append(help, args[0]), args[1:]
	}
	out, err := shell(context.Background(), strings.Join(append(help, "--help"), " ")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if usage := strings.TrimPrefix(strings.Join(help, " "), "bin/"); !strings.Contains(string(out), usage) {
		return fmt.Errorf("there is no %s", usage)
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "-") && !regexp.MustCompile(`(?m)(^|[\s,])`+regexp.QuoteMeta(flag)+`([\s,=]|$)`).Match(out) {
			return fmt.Errorf("%s has no flag %s", strings.Join(help, " "), flag)
		}
	}
	return nil
}

func targets(args []string) error {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		return err
	}
	for _, arg := range args {
		name, _, variable := strings.Cut(arg, "=")
		pattern := `(?m)^` + regexp.QuoteMeta(name) + `:`
		if variable {
			pattern = `\b` + regexp.QuoteMeta(name) + `\b`
		}
		if !regexp.MustCompile(pattern).Match(makefile) {
			return fmt.Errorf("the Makefile has no %s", name)
		}
	}
	return nil
}

func TestMissingCommandsAreReported(t *testing.T) {
	for script, want := range map[string]string{
		"make build\nmake run PORT=1 # a remark": "", "make bilud": "no bilud", "make run PROT=1": "no PROT",
		"queue --port 1 --concurrency=2 -- app --any": "", "./bin/queue --prot 1": "no flag --prot", "queue prob": "prob",
		"queuectl inject -f x --services": "", "ls | queuectl inject --servces -f -": "no flag --servces", "queuectl tpo": "tpo",
	} {
		var err error
		for _, command := range commands(script) {
			if problem := exists(command); problem != nil {
				err = problem
			}
		}
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}
