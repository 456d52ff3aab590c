package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Goal is a bound for a figure of a run. bench/goals.yaml explains the members.
type Goal struct {
	What    string `yaml:"what"`
	Measure `yaml:",inline"`
	RatioTo *Measure `yaml:"ratio_to"`
	Unit    string   `yaml:"unit"`
	AtMost  *float64 `yaml:"at_most"`
	AtLeast *float64 `yaml:"at_least"`
	Stretch *float64 `yaml:"stretch"`
	// Headline makes it a row of the table of README.md.
	Headline bool `yaml:"headline"`
}

// Measure names one median of a run.
type Measure struct {
	Scenario   string  `yaml:"scenario"`
	Target     string  `yaml:"target"`
	Figure     string  `yaml:"figure"`
	Percentile float64 `yaml:"percentile"`
}

const (
	gate      = "queuegate"
	reference = "haproxy" // the target that ratios in the tables are of
)

// ParseGoals reads goals from YAML, and reports every mistake together.
func ParseGoals(text []byte) ([]Goal, error) {
	var file struct {
		Goals []Goal `yaml:"goals"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	var problems []error
	for i := range file.Goals {
		g := &file.Goals[i]
		g.Target = cmp.Or(g.Target, gate)
		g.RatioTo.complete(g.Measure)
		if err := g.check(); err != nil {
			problems = append(problems, fmt.Errorf("goal %d (%q): %w", i+1, g.What, err))
		}
	}
	return file.Goals, errors.Join(problems...)
}

// complete fills in what m leaves out.
func (m *Measure) complete(from Measure) {
	if m == nil {
		return
	}
	m.Scenario, m.Target = cmp.Or(m.Scenario, from.Scenario), cmp.Or(m.Target, from.Target)
	if m.Figure == "" && m.Percentile == 0 {
		m.Figure, m.Percentile = from.Figure, from.Percentile
	}
}

func (g *Goal) check() error {
	var problems []error
	if g.What == "" {
		problems = append(problems, errors.New("what is empty"))
	}
	for name, m := range map[string]*Measure{"the goal": &g.Measure, "ratio_to": g.RatioTo} {
		switch {
		case m == nil:
		case m.Scenario == "":
			problems = append(problems, fmt.Errorf("%s names no scenario", name))
		case (m.Figure == "") == (m.Percentile == 0):
			problems = append(problems, fmt.Errorf("%s must name either a figure or a percentile", name))
		case m.Percentile < 0 || m.Percentile > 100:
			problems = append(problems, fmt.Errorf("percentile of %s is %v, must be within 0 to 100", name, m.Percentile))
		}
	}
	if g.RatioTo != nil && *g.RatioTo == g.Measure {
		problems = append(problems, errors.New("ratio_to is the goal's own measure"))
	}
	switch {
	case g.AtMost != nil && g.AtLeast != nil:
		problems = append(problems, errors.New("at_most and at_least exclude each other"))
	case g.AtMost == nil && g.AtLeast == nil && g.Stretch == nil:
		problems = append(problems, errors.New("one of at_most, at_least and stretch must be given"))
	}
	if g.RatioTo != nil && g.Unit != "" {
		problems = append(problems, fmt.Errorf("unit is %q, but a ratio has none", g.Unit))
	}
	return errors.Join(problems...)
}
