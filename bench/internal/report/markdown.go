package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// columnsPerTable is how many figures stand side by side in Markdown; a
// scenario with more has several tables.
const columnsPerTable = 6

// Markdown returns the report of a run as Markdown.
func Markdown(run *sample.Run, goals ...Goal) string {
	return markdown("# Benchmark report\n\n", run, goals)
}

// ResultsMarkdown returns the text of bench/RESULTS.md.
func ResultsMarkdown(run *sample.Run, goals ...Goal) string {
	return markdown("# Results\n\nWritten by the bench harness from one run, never by hand; [README.md](README.md) tells how to repeat it.\n\n", run, goals)
}

func markdown(head string, run *sample.Run, goals []Goal) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(escape(opening(run, goals)) + "\n\n")
	if charts := paletteOf(run).openingCharts(run); len(charts) > 0 {
		b.WriteString("```text\n")
		for i, c := range charts {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(c.text())
		}
		b.WriteString("```\n\n")
	}
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range facts(run) {
		fmt.Fprintf(&b, "| %s | %s |\n", escape(f.name), escape(f.value))
	}
	b.WriteByte('\n')
	if len(goals) > 0 {
		b.WriteString("## Goals\n\n" + goalsMarkdown(run, goals))
	}
	if lines := generalNotes(run); len(lines) > 0 {
		b.WriteString("## Notes\n\n" + list(lines) + "\n")
	}
	b.WriteString("## Scenarios\n\n" + legend(run))
	for _, name := range run.Scenarios() {
		fmt.Fprintf(&b, "\n### %s\n", escape(name))
		if lines := notesOf(run, name); len(lines) > 0 {
			b.WriteString("\n" + list(lines))
		}
		t := tableOf(run, name)
		for columns := range slices.Chunk(indexes(len(t.columns)), columnsPerTable) {
			b.WriteByte('\n')
			t.markdown(&b, columns)
		}
	}
	if rows := growths(run); len(rows) > 0 {
		b.WriteString("\n## Growth\n\n" + growthLegend + "\n\n| scenarios | figure | target | exponent | last two | from → to |\n|---|---|---|--:|--:|---|\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", escape(r.curve.family.Stem), escape(r.curve.label), escape(r.line.target), exponentText(r.line.exponent), exponentText(r.line.last), r.curve.rangeText(r.line))
		}
	}
	return b.String()
}

// goalsMarkdown has the goals that were measured, and folded those that were
// not.
func goalsMarkdown(run *sample.Run, goals []Goal) string {
	var judged, open strings.Builder
	left := 0
	for _, v := range verdicts(run, goals) {
		if !v.State.judged() {
			left++
			fmt.Fprintf(&open, "| %s | %s | %s | %s |\n", escape(v.What), v.Goal, v.Stretch, escape(v.From))
			continue
		}
		state := string(v.State)
		if v.State == missed {
			state = "**missed**"
		}
		fmt.Fprintf(&judged, "| %s | %s | %s | %s | %s | %s |\n", escape(v.What), v.Goal, v.Stretch, v.Measured, state, escape(v.From))
	}
	var b strings.Builder
	if judged.Len() > 0 {
		b.WriteString("| figure | goal | stretch | measured | | from |\n|---|--:|--:|--:|---|---|\n" + judged.String() + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "<details><summary>%d goals were not measured</summary>\n\n| figure | goal | stretch | why |\n|---|--:|--:|---|\n%s\n</details>\n\n", left, open.String())
	}
	return b.String()
}

func (t table) markdown(b *strings.Builder, columns []int) {
	b.WriteString("| target |")
	for _, i := range columns {
		fmt.Fprintf(b, " %s |", escape(t.columns[i].heading()))
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(columns)) + "\n")
	for _, r := range t.rows {
		measured := slices.ContainsFunc(columns, func(i int) bool { return r.cells[i].spread.N > 0 })
		if !measured {
			continue
		}
		fmt.Fprintf(b, "| %s |", escape(r.target))
		for _, i := range columns {
			fmt.Fprintf(b, " %s |", r.cells[i].text())
		}
		b.WriteByte('\n')
	}
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
	return text + ". Latencies are medians over the rounds of each round's percentile.\n"
}

type fact struct{ name, value string }

// facts say what was measured, when and on what.
func facts(run *sample.Run) []fact {
	m := run.Meta
	all := []fact{{"commit", m.Commit}, {"started", m.Started.UTC().Format(time.RFC3339)}}
	if n := run.Rounds(); n > 0 {
		all = append(all, fact{"rounds", fmt.Sprint(n)})
	}
	cores := ""
	if m.Machine.Cores > 0 {
		cores = fmt.Sprintf(", %d cores", m.Machine.Cores)
	}
	memory := ""
	if m.Machine.MemoryBytes > 0 {
		memory = ", " + withUnit(float64(m.Machine.MemoryBytes), unitOf("B")) + " of memory"
	}
	all = append(all,
		fact{"machine", m.Machine.CPU + cores + memory},
		fact{"system", strings.Trim(m.Machine.OS+", kernel "+m.Machine.Kernel, ", ")})
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		all = append(all, fact{"version of " + name, m.Versions[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		all = append(all, fact{"option " + name, strings.ReplaceAll(m.Options[name], ",", ", ")})
	}
	return all
}

// list writes lines as a list.
func list(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "- %s\n", escape(line))
	}
	return b.String()
}

// escape keeps text from being taken for Markdown or HTML.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`).Replace(text)
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// finite says whether a value can be drawn and written.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
