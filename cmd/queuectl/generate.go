package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/cli"
)

func newGenerate() *cobra.Command {
	queue := "queue"
	c := &cobra.Command{
		Use:   "generate DIR",
		Short: "Write man pages and shell completions for queuectl and the gate's binary",
		Long: `Writes DIR/man1 and DIR/completions: man pages and completions for bash, zsh and fish, for queuectl and
for queue, whose commands and settings its own help says.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("want the directory to write into")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			program, err := cli.Read(queue)
			if err != nil {
				return err
			}
			return generate(c.Root(), program, args[0])
		},
	}
	c.Flags().StringVar(&queue, "queue", queue, "the gate's binary")
	return c
}

func generate(root *cobra.Command, program *cli.Program, dir string) error {
	man, completions := filepath.Join(dir, "man1"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	// The date is SOURCE_DATE_EPOCH, if it is set.
	header := &doc.GenManHeader{Title: "QUEUECTL", Section: "1", Source: "queuectl " + buildVersion, Manual: "User Commands"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	completionPath := func(name string) string { return filepath.Join(completions, name) }
	files := map[string]string{
		filepath.Join(man, "queue.1"): program.Man(),
		completionPath("queue.bash"):  program.Bash(),
		completionPath("_queue"):      program.Zsh(),
		completionPath("queue.fish"):  program.Fish(),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(root.GenBashCompletionFileV2(completionPath("queuectl.bash"), true),
		root.GenZshCompletionFile(completionPath("_queuectl")), root.GenFishCompletionFile(completionPath("queuectl.fish"), true))
}
