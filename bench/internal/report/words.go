package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// openingPictures is the maximum number of pictures at the top.
const openingPictures = 4

// opening returns the first sentence of a report: the first measured goal, and a summary
// of all goals.
func opening(run *sample.Run, goals []Goal) string {
	for i, v := range judgeGoals(run, goals) {
		if !v.State.judged() {
			continue
		}
		text := v.Description + ": " + v.Measured
		if to := goals[i].RatioTo; to != nil && to.Target != goals[i].Target {
			text += " " + to.Target + "'s"
		}
		if v.Explanation != "" {
			text += " (" + v.Explanation + ")"
		}
		return text + ". " + goalsLine(run, goals)
	}
	text := measuredOf(run)
	if text == "" {
		text = "Measured: " + cmp.Or(strings.Join(run.Scenarios(), ", "), "nothing")
	}
	return text + ". The goals of the project (goals.yaml) refer to other scenarios, or compare with other targets."
}

// measuredOf describes the CPU per request and the throughput of the gate in one
// scenario. It uses the first scenario that has at least one of these two figures. If
// there is no such scenario, it returns "".
func measuredOf(run *sample.Run) string {
	for _, scenario := range run.Scenarios() {
		var parts []string
		if v, ok := run.Median(scenario, gate, "cpu_per_request"); ok {
			name, _ := run.Unit(scenario, "cpu_per_request")
			parts = append(parts, withUnit(v, unitOf(name))+" of CPU per request")
		}
		if v, ok := run.Median(scenario, gate, "requests_per_second"); ok {
			parts = append(parts, number(v)+" requests per second")
		}
		if len(parts) > 0 {
			return scenario + ": " + gate + " with " + strings.Join(parts, ", ")
		}
	}
	return ""
}

// aboutDirect explains the figures of direct if they are compared with those of a proxy.
// Otherwise it returns "".
func aboutDirect(run *sample.Run) string {
	for _, scenario := range run.Scenarios() {
		targets := run.Targets(scenario)
		if _, ok := run.Median(scenario, direct, "requests_per_second"); ok && len(targets) > 1 {
			return "direct is the same load without a proxy. A proxy adds a hop: each request and each response is received and sent once more, " +
				"and load generator, proxy and container share the cores of this machine. So the throughput of direct is an upper bound that no proxy reaches. " +
				"To judge the gate, compare its CPU per request with that of other proxies (--targets queuegate,haproxy,nginx), and the added latency of open-2000."
		}
	}
	return ""
}

// openingCharts returns the charts for the top of the page. They come from the first
// scenarios that have charts, at most openingPictures of them. Each of these scenarios
// contributes one chart: the CPU per request or, if it has no such chart, its first one.
func (p palette) openingCharts(run *sample.Run) (all []barChart) {
	for _, name := range run.Scenarios() {
		charts := p.bars(tableOf(run, name))
		if len(charts) == 0 {
			continue
		}
		best := charts[0]
		for _, c := range charts {
			if c.figure == "cpu_per_request" {
				best = c
			}
		}
		best.missing = missing(run, name, best.figure)
		if all = append(all, best); len(all) == openingPictures {
			break
		}
	}
	return all
}

// missing returns the targets that have a note instead of a figure in a scenario.
func missing(run *sample.Run, scenario, figure string) (targets []string) {
	for _, n := range run.Notes {
		if _, ok := run.Median(scenario, n.Target, figure); n.Scenario == scenario && !ok && n.Target != direct {
			targets = appendNew(targets, n.Target)
		}
	}
	return targets
}

// plain replaces characters that have a meaning in Markdown.
var plain = strings.NewReplacer("`", "'", "<", "‹", "\n", " ", "\r", " ")

// text draws the bars as text.
func (b barChart) text() string {
	const width = 40
	highest, name := 0.0, 0
	for _, bar := range b.bars {
		highest, name = max(highest, bar.spread.Median), max(name, len([]rune(bar.name)))
	}
	if highest <= 0 || math.IsInf(highest, 0) {
		highest = 1
	}
	var out strings.Builder
	out.WriteString(plain.Replace(b.title) + "\n")
	for _, bar := range b.bars {
		length := int(math.Round(max(0, bar.spread.Median) / highest * width))
		line := fmt.Sprintf("  %-*s %9s %s", name, plain.Replace(bar.name), b.label(bar), strings.Repeat("█", length))
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if text := b.missingWords(); text != "" {
		out.WriteString("  " + plain.Replace(text) + "\n")
	}
	return out.String()
}

// legend explains the cells.
func legend(run *sample.Run) string {
	text := "Each cell is the median of the rounds"
	if run.Rounds() > 1 {
		text = fmt.Sprintf("Each cell is the median of %d rounds with the quartiles", run.Rounds())
	}
	if slices.Contains(run.Targets(""), reference) {
		text += ", and its ratio to " + reference + "'s"
	}
	text += ". Latencies are medians over the rounds of each round's percentile."
	if slices.ContainsFunc(run.Scenarios(), func(name string) bool {
		return slices.ContainsFunc(tableOf(run, name).Rows, func(r row) bool { return slices.ContainsFunc(r.Cells, func(c cell) bool { return c.noise }) })
	}) {
		text += " " + noiseMeans
	}
	return text
}

type fact struct{ Name, Value string }

// facts returns the time of the run, the machine and the versions.
func facts(run *sample.Run) []fact {
	m := run.Meta
	all := []fact{{"commit", m.Commit}, {"started", m.Started.UTC().Format(time.RFC3339)}}
	if n := run.Rounds(); n > 0 {
		all = append(all, fact{"rounds", fmt.Sprint(n)})
	}
	machine := m.Machine.CPU
	if m.Machine.Cores > 0 {
		machine += fmt.Sprintf(", %d cores", m.Machine.Cores)
	}
	if m.Machine.MemoryBytes > 0 {
		machine += ", " + withUnit(float64(m.Machine.MemoryBytes), unitOf("B")) + " of memory"
	}
	all = append(all,
		fact{"machine", machine},
		fact{"system", strings.Trim(m.Machine.OS+", kernel "+m.Machine.Kernel, ", ")})
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		all = append(all, fact{"version of " + name, m.Versions[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		all = append(all, fact{"option " + name, strings.ReplaceAll(m.Options[name], ",", ", ")})
	}
	return all
}

// escape escapes text for both Markdown and HTML.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`).Replace(text)
}

func indexes(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// finite reports whether v is neither NaN nor infinite.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// generalNotes returns the notes that belong to no measured scenario. The other notes are
// in the sections of their scenarios. If there are such notes, the last line says how
// many.
func generalNotes(run *sample.Run) []string {
	scenarios := run.Scenarios()
	general := slices.DeleteFunc(slices.Clone(run.Notes), func(n sample.Note) bool { return slices.Contains(scenarios, n.Scenario) })
	lines := noteLines(general)
	if elsewhere := len(run.Notes) - len(general); elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("The %d notes on single scenarios are in their sections below.", elsewhere))
	}
	return lines
}

func notesOf(run *sample.Run, scenario string) []string {
	var own []sample.Note
	for _, n := range run.Notes {
		if n.Scenario == scenario {
			own = append(own, sample.Note{Target: n.Target, Text: n.Text})
		}
	}
	return noteLines(own)
}

// noteLines returns one line for all notes that differ only in the target. A line has the
// scenario and the targets, and then the text of the notes.
func noteLines(notes []sample.Note) (lines []string) {
	// The slice contains each different note once, without its target. The map contains
	// the words that precede the text of such a note in its line: the scenario, and then
	// all targets.
	var order []sample.Note
	abouts := map[sample.Note][]string{}
	for _, n := range notes {
		about := sample.Note{Scenario: n.Scenario, Text: n.Text}
		if !slices.Contains(order, about) {
			order = append(order, about)
			abouts[about] = appendNew(nil, n.Scenario)
		}
		abouts[about] = appendNew(abouts[about], n.Target)
	}
	for _, about := range order {
		line := about.Text
		if where := strings.Join(abouts[about], ", "); where != "" {
			line = where + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// appendNew appends name to names. It returns names unchanged if name is empty, or if
// names already contains it.
func appendNew(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
