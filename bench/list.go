package main

import (
	"embed"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/queuegate/queuegate/bench/internal/scenario"
	"github.com/queuegate/queuegate/bench/internal/target"
)

//go:embed targets.yaml templates
var builtIn embed.FS

// loadTargets reads the file of targets, the built-in one if name is empty.
func loadTargets(name string) ([]*target.Target, error) {
	if name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading targets: %w", err)
		}
		return target.Parse(text, os.DirFS(filepath.Dir(name)))
	}
	text, err := builtIn.ReadFile("targets.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading targets: %w", err)
	}
	return target.Parse(text, builtIn)
}

func listCommand(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("list", flag.ContinueOnError)
	file := flags.String("targets-file", "", "`file` instead of bench/targets.yaml")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	targets, err := loadTargets(*file)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenarios (* runs by default)")
	for _, s := range scenario.All() {
		mark := "*"
		if s.Extended {
			mark = " "
		}
		groups := ""
		if len(s.Groups) > 0 {
			groups = " [" + strings.Join(s.Groups, ", ") + "]"
		}
		fmt.Fprintf(w, "%s %s\t%s%s\n", mark, s.Name, s.About, groups)
	}
	fmt.Fprintln(w, "\ntargets")
	for _, t := range targets {
		fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.About)
	}
	return w.Flush()
}
