// Bench measures queuegate and other proxies, and reports the results.
//
//	go run -C bench . run        measure, and write a report
//	go run -C bench . list       list scenarios and targets
//	go run -C bench . report DIR rewrite the report of a run
//	go run -C bench . compare A B  compare two runs
//	go run -C bench . micro      run the micro-benchmarks and compare them
//	go run -C bench . engine     serve a model of a vLLM engine, for use by hand
//
// README.md describes usage and measurements.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/queuegate/queuegate/bench/internal/awake"
	"github.com/queuegate/queuegate/bench/internal/compare"
	"github.com/queuegate/queuegate/bench/internal/engine"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/micro"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/report"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/scenario"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const usage = `usage: go run -C bench . COMMAND [options]

  run              measure the targets side by side and write a report
  list             print the scenarios and the targets
  report DIR       write the report of a run again
  compare OLD NEW  what changed between two runs; exit code 1 on a regression,
                   2 if more rounds are needed to tell
  micro            run the micro-benchmarks and compare them with the recording
  engine           serve a model of a vLLM engine on 127.0.0.1, for use by hand

go run -C bench . COMMAND --help prints a command's options.
`

// Exit codes. --help also exits with exitUsage.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errUsage reports a wrong command line whose explanation was already printed.
var errUsage = errors.New("wrong command line")

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	var err error
	switch command, rest := args[0], args[1:]; command {
	case "run":
		err = runCommand(rest, stderr)
	case "list":
		err = listCommand(rest, stdout, stderr)
	case "report":
		err = reportCommand(rest, stderr)
	case "compare":
		return compare.Main(rest, stdout)
	case "micro":
		return micro.Main(rest, stdout)
	case "engine":
		err = engine.Command(rest, stdout, stderr)
	case load.Command: // this and the next two are helper processes
		err = load.Main(stdin, stdout)
	case origin.Command:
		err = origin.Main(stdin, stdout)
	case awake.Command:
		err = awake.Main(stdin, stdout)
	case "help", "--help", "-h":
		fmt.Fprint(stdout, usage)
	default:
		fmt.Fprintf(stderr, "bench: unknown command %q\n%s", command, usage)
		return exitUsage
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return exitFailed
}

// parse parses a command line. It explains a wrong command line on stderr.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(stderr)
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errUsage
	}
	return err
}

//go:embed targets.yaml templates
var builtIn embed.FS

// loadTargets returns the built-in targets and those of a file. A target of the file
// replaces a built-in target with the same name.
func loadTargets(name string) ([]*target.Target, error) {
	all, err := readTargets(builtIn, "targets.yaml")
	if err != nil || name == "" {
		return all, err
	}
	added, err := readTargets(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	if err != nil {
		return nil, err
	}
	for _, t := range added {
		i := slices.IndexFunc(all, func(other *target.Target) bool { return other.Name == t.Name })
		if i < 0 {
			all = append(all, t)
		} else {
			all[i] = t
		}
	}
	return all, nil
}

func readTargets(files fs.FS, name string) ([]*target.Target, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("reading targets: %w", err)
	}
	return target.Parse(text, files)
}

func listCommand(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("list", flag.ContinueOnError)
	file := flags.String("targets-file", "", "`file` with further targets")
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
		mark, groups := map[bool]string{false: "*", true: " "}[s.Extended], ""
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

//go:embed goals.yaml
var goalsFile []byte

func reportCommand(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	results := flags.String("results", "", "also write the results to `file`, for example RESULTS.md")
	readme := flags.String("readme", "", "also write the table into the section \"bench\" of `file`, for example ../README.md")
	table := flags.String("csv", "", "also write all figures to `file`, a line each, as comma-separated values")
	plots := flags.String("plots", "", "also write the pictures of docs/overload.md and docs/models.md into `directory`, for example ../docs/images")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: report [options] DIR\n\nDIR is the directory of a recorded run.")
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
	if *table != "" {
		if err := writeCSV(*table, run); err != nil {
			return err
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
		return report.ReplaceSection(*readme, "bench", report.ReadmeTable(run, goals...))
	}
	return nil
}

// writeCSV writes the figures of a run as comma-separated values.
func writeCSV(name string, run *sample.Run) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return run.WriteCSV(file)
}

// writeReport writes the report of a run into the run's directory.
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
