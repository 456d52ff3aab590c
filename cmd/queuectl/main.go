// Command queuectl adds the gate to manifests and removes it, probes and watches
// running gates, and reports problems of a manifest or a pod. See docs/queuectl.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// The linker sets these.
var (
	buildVersion = "development"
	buildCommit  = "unknown"
)

// Exit codes.
const (
	exitFailed = 1 // the command failed, or has found a problem
	exitUsage  = 2
)

// errSaid means that the error was already printed.
var errSaid = errors.New("reported")

// usageError is a wrong flag or argument.
type usageError struct{ error }

func main() {
	os.Exit(run(newRoot()))
}

func run(root *cobra.Command) int {
	err := root.ExecuteContext(context.Background())
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSaid):
		return exitFailed
	}
	fmt.Fprintln(root.ErrOrStderr(), "queuectl:", err)
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "queuectl",
		Short:             "Tools for the gate: manifests, probes, a live view",
		Long:              "queuectl adds the gate to manifests of Kubernetes and removes it, probes and monitors running gates,\nand reports problems of a manifest or a pod.",
		Version:           fmt.Sprintf("%s (commit %s, %s %s/%s)", buildVersion, buildCommit, runtime.Version(), runtime.GOOS, runtime.GOARCH),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		RunE: func(c *cobra.Command, args []string) error {
			return c.Help()
		},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{unknownCommand(c, args[0])}
			}
			return nil
		},
	}
	root.SetVersionTemplate("queuectl {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newInject(), newUninject(), newSet(), newProbe(), newDoctor(), newTop(), newGenerate(), &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version", Args: noArguments,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "queuectl", root.Version) },
	})
	return root
}

func unknownCommand(c *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q; \"queuectl help\" lists them", name)
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	if suggestions := c.SuggestionsFor(name); len(suggestions) > 0 {
		err = fmt.Errorf("unknown command %q; did you mean %s?", name, suggestions[0])
	}
	return err
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("argument %q: want only flags", args[0])}
	}
	return nil
}
