package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// openingPictures is how many a report opens with.
const openingPictures = 4

// opening is the sentence that a report opens with: the first goal that was
// measured, and what became of all.
func opening(run *sample.Run, goals []Goal) string {
	for i, v := range verdicts(run, goals) {
		if !v.State.judged() {
			continue
		}
		text := v.What + ": " + v.Measured
		if to := goals[i].RatioTo; to != nil && to.Target != goals[i].Target {
			text += " " + to.Target + "'s"
		}
		if v.From != "" {
			text += " (" + v.From + ")"
		}
		return text + ". " + goalsLine(run, goals)
	}
	text := strings.Join(run.Scenarios(), ", ")
	if text == "" {
		text = "nothing"
	}
	return "Measured: " + text + ". None of the goals is about that."
}

// openingCharts are the bars that a report opens with: those of CPU of its
// first scenarios, or the first bars that a scenario has.
func (p palette) openingCharts(run *sample.Run) (all []chart) {
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
		if all = append(all, best); len(all) == openingPictures {
			break
		}
	}
	return all
}

// plain keeps the names of a record from ending a block of Markdown.
var plain = strings.NewReplacer("`", "'", "<", "‹", "\n", " ", "\r", " ")

// text draws the bars with letters.
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
		line := fmt.Sprintf("  %-*s %9s %s", name, plain.Replace(bar.name), number(bar.spread.Median), strings.Repeat("█", length))
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
