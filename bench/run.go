package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/bench/internal/proc"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/scenario"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// wantedFiles suffices for ten thousand connections on both sides of a proxy.
const wantedFiles = 65_536

// runSettings are the flags of "run".
type runSettings struct {
	scenarios, targets string
	rounds             int
	duration           time.Duration
	out                string
	profile, quick     bool
	targetsFile        string
	binaries           map[string]string // paths by target
	peers              []*target.Target
	options            map[string]string // options on the command line
}

func parseRun(args []string, stderr io.Writer) (*runSettings, error) {
	s := &runSettings{binaries: map[string]string{}, options: map[string]string{}}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&s.scenarios, "scenarios", "", "`names` of scenarios or groups, with commas, or \"all\" (default: the scenarios that \"list\" marks)")
	flags.StringVar(&s.targets, "targets", "", "`names` of targets, with commas (default: all installed)")
	flags.IntVar(&s.rounds, "rounds", 5, "`number` of rounds; medians are over rounds")
	flags.DurationVar(&s.duration, "duration", 5*time.Second, "`time` of load for each measurement")
	flags.StringVar(&s.out, "out", "", "`directory` for samples, report and profiles (default bench/out/TIME)")
	flags.BoolVar(&s.profile, "profile", false, "collect CPU and allocation profiles of queuegate in the first round; this affects its figures")
	flags.BoolVar(&s.quick, "quick", false, "one short round with few connections, to check that everything works; the figures mean nothing")
	flags.StringVar(&s.targetsFile, "targets-file", "", "`file` with further targets; its templates are in the same directory")
	flags.Func("peer", "`NAME=URL` of a proxy that runs already, such as http://10.0.0.7:8080, as a further target without figures of CPU and memory; may be repeated", func(text string) error {
		name, location, _ := strings.Cut(text, "=")
		peer, err := target.Peer(name, location)
		if err == nil {
			s.peers = append(s.peers, peer)
		}
		return err
	})
	binary := func(text string) error {
		name, path, found := strings.Cut(text, "=")
		if !found || name == "" || path == "" {
			return fmt.Errorf("%q is not NAME=PATH", text)
		}
		s.binaries[name] = path
		return nil
	}
	flags.Func("binary", "`NAME=PATH` of a target's binary; may be repeated", binary)
	flags.Func("knative", "`path` of Knative's queue-proxy; short for --binary knative=PATH", func(path string) error {
		return binary("knative=" + path)
	})
	if err := parse(flags, args, stderr); err != nil {
		return nil, err
	}
	flags.Visit(func(f *flag.Flag) { s.options[f.Name] = f.Value.String() })
	if s.quick && s.options["rounds"] == "" {
		s.rounds = 1
	}
	if s.quick && s.options["duration"] == "" {
		s.duration = 200 * time.Millisecond
	}
	var problems []error
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	if s.rounds < 1 {
		problems = append(problems, fmt.Errorf("--rounds is %d, must be at least 1", s.rounds))
	}
	if s.duration < 10*time.Millisecond {
		problems = append(problems, fmt.Errorf("--duration is %v, must be at least 10ms", s.duration))
	}
	return s, errors.Join(problems...)
}

func runCommand(args []string, stderr io.Writer) (err error) {
	s, err := parseRun(args, stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	scenarios, err := scenario.Select(names(s.scenarios))
	if err != nil {
		return err
	}
	root, err := proc.RepositoryRoot()
	if err != nil {
		return err
	}
	files, err := proc.RaiseFiles(wantedFiles)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "queuegate-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the targets: %w", err)
	}
	defer os.RemoveAll(scratch)
	if err := os.Chmod(scratch, 0o755); err != nil { // a server that changes its user must still be able to enter the directory
		return err
	}
	if s.out == "" {
		s.out = filepath.Join(root, "bench", "out", time.Now().UTC().Format("20060102-150405"))
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return fmt.Errorf("making the directory of the run: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.out, sample.FileName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("starting the record of the run: %w", err)
	}
	defer file.Close()

	all, err := loadTargets(s.targetsFile)
	if err != nil {
		return err
	}
	if err := checkPeers(all, s.peers); err != nil {
		return err
	}
	wanted, missing, err := findTargets(ctx, all, s, root, scratch)
	if err != nil {
		return err
	}
	writer := sample.NewWriter(file)
	if err := writer.Meta(meta(ctx, s, root, wanted)); err != nil {
		return err
	}
	for _, note := range missing {
		fmt.Fprintf(stderr, "%s\n", note.Text)
		if err := writer.Note(note); err != nil {
			return err
		}
	}
	options := scenario.Options{Rounds: s.rounds, Duration: s.duration, Quick: s.quick, Dir: scratch, Files: files}
	if s.profile {
		options.Profile = filepath.Join(s.out, "profiles")
	}
	err = scenario.RunAll(ctx, scenarios, wanted, options, writer, progress(stderr, s.rounds))
	if err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "interrupted; the report contains the measurements made so far")
	}
	_, _, err = writeReport(s.out, stderr)
	return errors.Join(ctx.Err(), err)
}

// findTargets returns the targets of the run. If the binary of a target is not installed,
// findTargets omits the target and returns a note about it. A binary whose path the user
// gave must exist; otherwise findTargets returns an error.
func findTargets(ctx context.Context, all []*target.Target, s *runSettings, root, scratch string) ([]*target.Target, []sample.Note, error) {
	chosen := names(s.targets)
	for _, name := range slices.Concat(chosen, slices.Sorted(maps.Keys(s.binaries))) {
		if !slices.ContainsFunc(all, func(t *target.Target) bool { return t.Name == name }) {
			return nil, nil, fmt.Errorf("no target is named %s", name)
		}
	}
	var found []*target.Target
	var missing []sample.Note
	for _, t := range all {
		if len(chosen) > 0 && !slices.Contains(chosen, t.Name) {
			continue
		}
		err := t.Find(ctx, root, scratch, s.binaries[t.Name])
		switch {
		case err == nil:
			found = append(found, t)
		case errors.Is(err, target.ErrMissing):
			missing = append(missing, sample.Note{Target: t.Name, Text: "skipped: " + err.Error()})
		default:
			return nil, nil, err
		}
	}
	found = append(found, s.peers...)
	if len(found) == 0 {
		return nil, nil, errors.New("none of the targets is installed")
	}
	return found, missing, nil
}

// checkPeers rejects a peer with the name of another target.
func checkPeers(all, peers []*target.Target) error {
	for i, p := range peers {
		if slices.ContainsFunc(slices.Concat(all, peers[:i]), func(t *target.Target) bool { return t.Name == p.Name }) {
			return fmt.Errorf("--peer %s: another target has this name", p.Name)
		}
	}
	return nil
}

func meta(ctx context.Context, s *runSettings, root string, targets []*target.Target) sample.Meta {
	m := sample.Meta{
		Started:  time.Now().UTC().Truncate(time.Second),
		Machine:  proc.Machine(),
		Versions: map[string]string{"go": runtime.Version()},
		Commit:   proc.Revision(root),
		Options: map[string]string{
			"rounds":   strconv.Itoa(s.rounds),
			"duration": s.duration.String(),
		},
	}
	for _, t := range targets {
		if v := t.ReadVersion(ctx); v != "" {
			m.Versions[t.Name] = v
		}
	}
	for _, p := range s.peers {
		m.Options["peer "+p.Name] = p.About
	}
	for _, name := range []string{"scenarios", "targets", "profile", "quick"} {
		if value, ok := s.options[name]; ok {
			m.Options[name] = value
		}
	}
	return m
}

// names splits a list at its commas.
func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// progress prints a line for each scenario of each round.
func progress(out io.Writer, rounds int) scenario.Progress {
	last := ""
	return func(round int, scenario string, left time.Duration) {
		if what := fmt.Sprintf("round %d/%d  %s", round, rounds, scenario); what != last {
			fmt.Fprintf(out, "%s  %s left\n", what, left.Round(time.Second))
			last = what
		}
	}
}
