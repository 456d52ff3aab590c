package report

import (
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

// ReadmeTable returns the table of README.md, followed by a line about the machine and
// the versions. Each headline goal is a row, and each target is a column. A cell shows
// the figure of the goal. If the goal is a ratio of two figures of the same target, the
// cell shows the ratio.
func ReadmeTable(run *sample.Run, goals ...Goal) string {
	targets := run.Targets("")
	type row struct {
		description string
		cells       map[string]string // text by target
	}
	var rows []row
	done, noise := map[string]bool{}, false
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
		r, u, factor := row{g.Description, map[string]string{}}, unit{name: "×"}, 1.0
		if g.RatioTo == nil {
			u, factor = g.rowUnit(run)
		}
		for _, target := range targets {
			if value, _, err := g.measured(run, target); err == nil {
				r.cells[target] = strings.TrimSpace(number(value*factor) + " " + u.name)
				if g.RatioTo == nil && isNoise(g.figure(), value) {
					r.cells[target], noise = withinNoise, true
				}
			}
		}
		if r.cells[gate] == "" {
			continue
		}
		done[key], rows = true, append(rows, r)
	}
	targets = slices.DeleteFunc(targets, func(t string) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return r.cells[t] != "" })
	})
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
		fmt.Fprintf(&b, "| %s |", escape(r.description))
		for _, t := range targets {
			fmt.Fprintf(&b, " %s |", cmp.Or(r.cells[t], "–"))
		}
		b.WriteByte('\n')
	}
	if noise {
		b.WriteString("\n" + noiseMeans + "\n")
	}
	m := run.Meta
	fmt.Fprintf(&b, "\nMedians of %d rounds on %s (%d cores), %s, kernel %s, commit %s, %s; %s. The harness writes this table: [bench/RESULTS.md](bench/RESULTS.md) has all measurements.\n",
		run.Rounds(), escape(m.Machine.CPU), m.Machine.Cores, escape(m.Machine.OS), escape(m.Machine.Kernel),
		escape(m.Commit), m.Started.UTC().Format(time.DateOnly), escape(shortVersions(m.Versions)))
	return b.String()
}

// rowUnit returns the unit of a table row. This is the unit of the goal. If the goal has
// no unit, it is the unit that makes the value of the gate easy to read. The second
// result is the factor that converts a value of Goal.measured to the unit of the row.
func (g Goal) rowUnit(run *sample.Run) (unit, float64) {
	value, u, err := g.Measure.median(run)
	if g.Unit != "" || err != nil {
		return unitOf(g.Unit), 1
	}
	suits := u.scaled(value)
	factor, _ := u.factorTo(suits)
	return suits, factor
}

var versionNumber = regexp.MustCompile(`\d+\.\d+[^\s,;)]*`)

// shortVersions lists programs with their version numbers, except queuegate, which the
// commit identifies.
func shortVersions(versions map[string]string) string {
	names := map[string][]string{} // names by version
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

// ReplaceSection replaces the text between "<!-- MARKER:begin -->" and "<!-- MARKER:end
// -->" in a file. Each marker must be on its own line. Without exactly one such pair,
// ReplaceSection returns an error and does not change the file.
func ReplaceSection(file, marker, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("replacing section %q: %w", marker, err)
	}
	begin, end := "<!-- "+marker+":begin -->", "<!-- "+marker+":end -->"
	before, rest, _ := strings.Cut(string(old), begin)
	_, after, found := strings.Cut(rest, end)
	if !found || strings.Count(string(old), begin) != 1 || strings.Count(string(old), end) != 1 {
		return fmt.Errorf("replacing section %q: %s must have one %s, followed by one %s", marker, file, begin, end)
	}
	replaced := before + begin + "\n\n" + strings.Trim(text, "\n") + "\n\n" + end + after
	if err := os.WriteFile(file, []byte(replaced), 0o644); err != nil {
		return fmt.Errorf("replacing section %q: %w", marker, err)
	}
	return nil
}
