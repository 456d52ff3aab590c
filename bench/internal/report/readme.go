package report

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// ReadmeTable returns the table of README.md: a row for each figure that the
// headlines among the goals are about, a column for each target, and below it
// what it was measured on. A goal that compares with another target gives the
// figure itself; one that compares queuegate with itself gives the ratio.
func ReadmeTable(run *sample.Run, goals ...Goal) string {
	targets := run.Targets("")
	type row struct {
		what  string
		cells map[string]string // by target
	}
	var rows []row
	used, done := map[string]bool{}, map[string]bool{}
	for _, g := range goals {
		if !g.Headline {
			continue
		}
		if g.RatioTo != nil && g.RatioTo.Target != g.Target {
			g.RatioTo = nil
		}
		key := fmt.Sprint(g.Measure, g.RatioTo)
		if done[key] {
			continue
		}
		r, u := row{g.What, map[string]string{}}, g.rowUnit(run)
		for _, target := range targets {
			if text, ok := g.readmeCell(run, target, u); ok {
				r.cells[target] = text
			}
		}
		if r.cells[gate] == "" {
			continue
		}
		for target := range r.cells {
			used[target] = true
		}
		done[key], rows = true, append(rows, r)
	}
	targets = slices.DeleteFunc(targets, func(t string) bool { return !used[t] })
	if i := slices.Index(targets, gate); i > 0 {
		targets = slices.Insert(slices.Delete(targets, i, i+1), 0, gate)
	}
	var b strings.Builder
	if len(rows) == 0 {
		b.WriteString("The run measured none of the figures that headlines are about.\n")
	} else {
		b.WriteString("| |")
		for _, t := range targets {
			fmt.Fprintf(&b, " %s |", escape(t))
		}
		b.WriteString("\n|---|" + strings.Repeat("--:|", len(targets)) + "\n")
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", escape(r.what))
		for _, t := range targets {
			fmt.Fprintf(&b, " %s |", cmp.Or(r.cells[t], "–"))
		}
		b.WriteByte('\n')
	}
	m := run.Meta
	fmt.Fprintf(&b, "\nMedians of %d rounds on %s (%d cores), %s, kernel %s, commit %s, %s; %s. The harness writes this table: [bench/RESULTS.md](bench/RESULTS.md) has everything that was measured.\n",
		run.Rounds(), escape(m.Machine.CPU), m.Machine.Cores, escape(m.Machine.OS), escape(m.Machine.Kernel),
		escape(m.Commit), m.Started.UTC().Format(time.DateOnly), escape(shortVersions(m.Versions)))
	return b.String()
}

// readmeCell writes what a target measured, and false if it did not.
func (g Goal) readmeCell(run *sample.Run, target string, u unit) (string, bool) {
	value, _, err := g.measured(run, target)
	switch {
	case err != nil:
		return "", false
	case g.RatioTo != nil:
		return number(value) + " ×", true
	case g.Unit != "":
		return strings.TrimSpace(number(value) + " " + u.name), true
	}
	_, measured, err := g.Measure.median(run)
	if err != nil {
		return "", false
	}
	f, _ := measured.to(u)
	return strings.TrimSpace(number(value*f) + " " + u.name), true
}

// rowUnit is the goal's unit; if it names none, that which suits the gate's
// value.
func (g Goal) rowUnit(run *sample.Run) unit {
	_, u, err := g.Measure.median(run)
	if g.Unit != "" || err != nil {
		return unitOf(g.Unit)
	}
	value, _, err := g.measured(run, gate)
	if err != nil {
		return u
	}
	return u.scaled(value)
}

// versionNumber finds the number in what a program says of its version.
var versionNumber = regexp.MustCompile(`\d+\.\d+[^\s,;)]*`)

// shortVersions names the other programs with their version numbers; the commit
// says what queuegate is.
func shortVersions(versions map[string]string) string {
	names := map[string][]string{} // by version
	var order []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if name == gate {
			continue
		}
		v := versions[name]
		if names[v] == nil {
			order = append(order, v)
		}
		names[v] = append(names[v], name)
	}
	var all []string
	for _, v := range order {
		number := v
		if found := versionNumber.FindString(v); found != "" {
			number = found
		}
		all = append(all, strings.Join(names[v], " and ")+" "+number)
	}
	return strings.Join(all, ", ")
}

// ReplaceSection replaces what stands between "<!-- MARKER:begin -->" and
// "<!-- MARKER:end -->" in a file by text, each on lines of its own. A file
// without exactly one such pair, in this order, is an error and stays as it is.
func ReplaceSection(file, marker, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("replacing section %q: %w", marker, err)
	}
	begin, end := []byte("<!-- "+marker+":begin -->"), []byte("<!-- "+marker+":end -->")
	from, to := bytes.Index(old, begin), bytes.Index(old, end)
	switch {
	case bytes.Count(old, begin) != 1 || bytes.Count(old, end) != 1:
		return fmt.Errorf("replacing section %q: %s has %d %s and %d %s, want one of each", marker, file,
			bytes.Count(old, begin), begin, bytes.Count(old, end), end)
	case to < from:
		return fmt.Errorf("replacing section %q: in %s the end comes before the beginning", marker, file)
	}
	text = "\n\n" + strings.Trim(text, "\n") + "\n\n"
	replaced := slices.Concat(old[:from+len(begin)], []byte(text), old[to:])
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("replacing section %q: %w", marker, err)
	}
	if err := writeFile(file, replaced, info.Mode().Perm()); err != nil {
		return fmt.Errorf("replacing section %q: %w", marker, err)
	}
	return nil
}
