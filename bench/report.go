package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/report"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

//go:embed goals.yaml
var goalsFile []byte

// readmeMarker names the section of a README that "report --readme" writes.
const readmeMarker = "bench"

func reportCommand(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	results := flags.String("results", "", "write the results to `file` too, such as bench/RESULTS.md")
	readme := flags.String("readme", "", "write the table into the section \""+readmeMarker+"\" of `file` too, such as README.md")
	plots := flags.String("plots", "", "write the pictures of docs/overload.md into `directory` too, such as docs/images")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: report [options] DIR\n\nDIR is the directory of a run.")
		flags.PrintDefaults()
	}
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return errUsage
	}
	run, goals, err := writeReport(flags.Arg(0), stderr)
	if err != nil {
		return err
	}
	if *results != "" {
		if err := os.WriteFile(*results, []byte(report.ResultsMarkdown(run, goals...)), 0o644); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	if *plots != "" {
		names, err := report.WritePlots(*plots, run)
		if err != nil {
			return err
		}
		fmt.Fprintln(stderr, strings.Join(names, ", "))
	}
	if *readme != "" {
		return report.ReplaceSection(*readme, readmeMarker, report.ReadmeTable(run, goals...))
	}
	return nil
}

// writeReport writes the report of a run into its directory.
func writeReport(dir string, stderr io.Writer) (*sample.Run, []report.Goal, error) {
	run, err := sample.ReadFile(filepath.Join(dir, sample.FileName))
	if err != nil {
		return nil, nil, err
	}
	goals, err := report.ParseGoals(goalsFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading goals: %w", err)
	}
	if err := report.Write(dir, run, goals...); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(stderr, "%s: samples.jsonl, report.md, report.html\n", dir)
	return run, goals, nil
}
