package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// generalNotes returns the notes that belong to no scenario with figures, and
// a line that says where the others stand.
func generalNotes(run *sample.Run) []string {
	scenarios := run.Scenarios()
	var general []sample.Note
	elsewhere := 0
	for _, n := range run.Notes {
		if slices.Contains(scenarios, n.Scenario) {
			elsewhere++
		} else {
			general = append(general, n)
		}
	}
	lines := noteLines(general)
	if elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("Notes on single scenarios, %d in all, stand with them below.", elsewhere))
	}
	return lines
}

// notesOf returns the notes of a scenario.
func notesOf(run *sample.Run, scenario string) []string {
	var own []sample.Note
	for _, n := range run.Notes {
		if n.Scenario == scenario {
			n.Scenario = ""
			own = append(own, n)
		}
	}
	return noteLines(own)
}

// noteLines writes each text once, after the scenario and the targets that it
// is about.
func noteLines(notes []sample.Note) []string {
	type about struct{ scenario, text string }
	var order []about
	targets := map[about][]string{}
	for _, n := range notes {
		a := about{n.Scenario, n.Text}
		if _, ok := targets[a]; !ok {
			order = append(order, a)
			targets[a] = []string{}
		}
		if n.Target != "" && !slices.Contains(targets[a], n.Target) {
			targets[a] = append(targets[a], n.Target)
		}
	}
	var lines []string
	for _, a := range order {
		where := strings.Join(targets[a], ", ")
		if a.scenario != "" && where != "" {
			where = a.scenario + ", " + where
		} else if a.scenario != "" {
			where = a.scenario
		}
		if where != "" {
			where += ": "
		}
		lines = append(lines, where+a.text)
	}
	return lines
}
