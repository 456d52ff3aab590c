package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Goal is a bound for a figure of a run. bench/goals.yaml explains the fields.
type Goal struct {
	Description string `yaml:"what"`
	Measure     `yaml:",inline"`
	RatioTo     *Measure `yaml:"ratio_to"`
	Unit        string   `yaml:"unit"`
	AtMost      *float64 `yaml:"at_most"`
	AtLeast     *float64 `yaml:"at_least"`
	Stretch     *float64 `yaml:"stretch"`
	// Headline adds a row for this goal to the table in README.md.
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
	direct    = "direct"
	reference = "haproxy" // target to which the ratios in tables refer
)

// ParseGoals parses goals in YAML. The error lists all mistakes.
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
			problems = append(problems, fmt.Errorf("goal %d (%q): %w", i+1, g.Description, err))
		}
	}
	return file.Goals, errors.Join(problems...)
}

// complete fills the empty fields of m from another measure.
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
	if g.Description == "" {
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

// goalResult is a goal and its result.
type goalResult struct {
	Description string
	Goal        string // "≤ 30.0 µs"
	Stretch     string // stretch goal, written like Goal; "" = none
	Measured    string // "24.1 µs", or "–" if there is no value
	Explanation string // the medians of a ratio, or the reason why there is no value, or ""
	State       state
}

type state string

const (
	reached     state = "held"
	stretched   state = "held, stretch too"
	missed      state = "missed"
	onlyHope    state = "stretch missed" // the goal has only a stretch, which was missed
	notMeasured state = "not measured"
	otherUnit   state = "unit unknown"
)

// isReached reports whether the goal was reached.
func (s state) isReached() bool { return s == reached || s == stretched }

// judged reports whether there are measurements for the goal.
func (s state) judged() bool { return s.isReached() || s == missed || s == onlyHope }

// Class returns the CSS class of a result on the page.
func (v goalResult) Class() string {
	switch {
	case v.State.isReached():
		return "held"
	case v.State == missed:
		return "missed"
	}
	return "open"
}

func judgeGoals(run *sample.Run, goals []Goal) []goalResult {
	out := make([]goalResult, len(goals))
	for i, g := range goals {
		out[i] = g.judge(run)
	}
	return out
}

// leastRounds is the number of rounds below which results are provisional.
const leastRounds = 5

// goalsLine summarizes all results in one line.
func goalsLine(run *sample.Run, goals []Goal) string {
	reached, judged := 0, 0
	for _, v := range judgeGoals(run, goals) {
		if v.State.isReached() {
			reached++
		}
		if v.State.judged() {
			judged++
		}
	}
	line := fmt.Sprintf("%d of %d measured goals held, %d not measured.", reached, judged, len(goals)-judged)
	if n := run.Rounds(); n < leastRounds && judged > 0 {
		line += fmt.Sprintf(" The goals require %d rounds; this run had %d, so the verdicts are provisional.", leastRounds, n)
	}
	return line
}

func (g Goal) judge(run *sample.Run) goalResult {
	v := goalResult{Description: g.Description}
	u := unitOf(g.Unit)
	sign := "≤"
	bound := g.AtMost
	if g.AtLeast != nil {
		sign, bound = "≥", g.AtLeast
	}
	unit := u.name
	if g.RatioTo != nil {
		unit = "×"
	}
	write := func(digits string) string { return strings.TrimSpace(digits + " " + unit) }
	if bound != nil {
		v.Goal = sign + " " + write(tickNumber(*bound))
	}
	if g.Stretch != nil {
		v.Stretch = sign + " " + write(tickNumber(*g.Stretch))
	}
	value, from, err := g.measured(run, g.Target)
	if err != nil {
		v.Measured, v.Explanation, v.State = "–", err.Error(), otherUnit
		if errors.Is(err, errNotMeasured) {
			v.State = notMeasured
		}
		return v
	}
	if g.RatioTo != nil {
		v.Explanation = from
	}
	if v.Measured = write(number(value)); g.RatioTo == nil && isNoise(g.figure(), value) {
		v.Measured = withinNoise
	}
	keeps := func(b *float64) bool {
		return b != nil && (g.AtLeast != nil && value >= *b || g.AtLeast == nil && value <= *b)
	}
	switch {
	case keeps(g.Stretch):
		v.State = stretched
	case keeps(bound):
		v.State = reached
	case bound == nil:
		v.State = onlyHope
	default:
		v.State = missed
	}
	return v
}

var errNotMeasured = errors.New("not measured")

// measured returns the value of the goal for a target, in the unit of the goal. The
// second result is a text with the medians from which the value was computed, such as
// "2.00 µs / 20.0 µs".
func (g Goal) measured(run *sample.Run, target string) (value float64, explanation string, err error) {
	swap := func(m Measure) Measure {
		if m.Target == g.Target {
			m.Target = target
		}
		return m
	}
	value, u, err := swap(g.Measure).median(run)
	if err != nil {
		return 0, "", err
	}
	explanation = withUnit(value, u)
	if g.RatioTo == nil {
		if g.Unit == "" {
			return value, explanation, nil
		}
		f, ok := u.factorTo(unitOf(g.Unit))
		if !ok {
			return 0, "", fmt.Errorf("%s is measured in %q, the goal is in %q", g.Measure, u.name, g.Unit)
		}
		return value * f, explanation, nil
	}
	divisor, ud, err := swap(*g.RatioTo).median(run)
	if err != nil {
		return 0, "", err
	}
	f, ok := u.factorTo(ud)
	if !ok {
		return 0, "", fmt.Errorf("%s is measured in %q, %s in %q", g.Measure, u.name, *g.RatioTo, ud.name)
	}
	if divisor <= 0 {
		return 0, "", fmt.Errorf("%w: %s is %s, nothing to divide by", errNotMeasured, *g.RatioTo, withUnit(divisor, ud))
	}
	return value * f / divisor, explanation + " / " + withUnit(divisor, ud), nil
}

func (m Measure) median(run *sample.Run) (float64, unit, error) {
	value, ok := run.Median(m.Scenario, m.Target, m.figure())
	if !ok {
		return 0, unit{}, fmt.Errorf("%s: %w", m, errNotMeasured)
	}
	name, _ := run.Unit(m.Scenario, m.figure())
	return value, unitOf(name), nil
}

func (m Measure) figure() string {
	if m.Figure == "" {
		return sample.PercentileName(m.Percentile)
	}
	return m.Figure
}

// String returns the scenario, the target and the figure, separated by spaces.
func (m Measure) String() string { return m.Scenario + " " + m.Target + " " + m.figure() }
