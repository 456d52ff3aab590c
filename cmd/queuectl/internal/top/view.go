package top

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

// fetchTimeout limits the time to read the metrics of a gate.
const fetchTimeout = 3 * time.Second

// listEvery is the interval at which the gates are listed.
const listEvery = 5 * time.Second

// List returns the current gates.
type List func(context.Context) ([]Source, error)

// Model is the live view.
type Model struct {
	ctx      context.Context
	gates    []*Gate
	list     List
	listErr  error
	interval time.Duration
	selected int
	width    int
	paused   bool
}

// NewModel returns a view of these gates, which are read at this interval until
// ctx ends. With list, gates are added and removed by name.
func NewModel(ctx context.Context, sources []Source, list List, interval time.Duration) *Model {
	m := &Model{ctx: ctx, list: list, interval: interval, width: 80}
	for _, s := range sources {
		m.gates = append(m.gates, &Gate{Source: s})
	}
	return m
}

type (
	tick    struct{ gate *Gate }
	fetched struct {
		gate   *Gate
		sample *Sample
		err    error
	}
	listed struct {
		sources []Source
		err     error
	}
)

// Init reads all gates.
func (m *Model) Init() tea.Cmd {
	all := []tea.Cmd{m.listLater()}
	for _, g := range m.gates {
		all = append(all, m.fetch(g))
	}
	return tea.Batch(all...)
}

func (m *Model) fetch(gate *Gate) tea.Cmd {
	source := gate.Source
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, fetchTimeout)
		defer cancel()
		sample, err := source.Fetch(ctx)
		return fetched{gate, sample, err}
	}
}

func (m *Model) listLater() tea.Cmd {
	if m.list == nil {
		return nil
	}
	return tea.Tick(listEvery, func(time.Time) tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, listEvery)
		defer cancel()
		sources, err := m.list(ctx)
		return listed{sources, err}
	})
}

// replace sets the list of gates: it keeps the samples of remaining gates, and
// starts reading new ones.
func (m *Model) replace(sources []Source) tea.Cmd {
	var begin []tea.Cmd
	var gates []*Gate
	selected := 0
	for _, s := range sources {
		i := slices.IndexFunc(m.gates, func(g *Gate) bool { return g.Name == s.Name })
		if i < 0 {
			g := &Gate{Source: s}
			gates = append(gates, g)
			begin = append(begin, m.fetch(g))
			continue
		}
		if i == m.selected {
			selected = len(gates)
		}
		gates = append(gates, m.gates[i])
	}
	m.gates, m.selected = gates, selected
	return tea.Batch(begin...)
}

// Update handles a sample, a key or a new size.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width = msg.Width
	case tick:
		if slices.Contains(m.gates, msg.gate) {
			return m, m.fetch(msg.gate)
		}
	case fetched:
		if !m.paused {
			msg.gate.Add(msg.sample, msg.err)
		}
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return tick{msg.gate} })
	case listed:
		if m.listErr = msg.err; msg.err != nil || m.paused {
			return m, m.listLater()
		}
		return m, tea.Batch(m.replace(msg.sources), m.listLater())
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "up", "k":
			m.selected = max(0, m.selected-1)
		case "down", "j":
			m.selected = max(0, min(len(m.gates)-1, m.selected+1))
		case "p", " ":
			m.paused = !m.paused
		}
	}
	return m, nil
}

var (
	bold = lipgloss.NewStyle().Bold(true)
	dim  = lipgloss.NewStyle().Faint(true)
	good = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	bad  = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
)

// View renders the screen.
func (m *Model) View() string {
	var b strings.Builder
	for i, line := range Table(m.gates, m.width) {
		switch {
		case i == 0:
			line = bold.Render(line)
		case i == m.selected+1 && len(m.gates) > 1:
			line = lipgloss.NewStyle().Reverse(true).Render(line)
		default:
			if ready, _ := m.gates[i-1].Readiness(); ready {
				line = good.Render(line)
			} else {
				line = bad.Render(line)
			}
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	if len(m.gates) == 0 {
		b.WriteString("no pod is running\n")
	} else {
		b.WriteString(m.details(m.gates[m.selected]))
	}
	if m.listErr != nil {
		b.WriteString(bad.Render(cut(m.listErr.Error(), m.width)) + "\n")
	}
	keys := "q quit   p pause"
	if len(m.gates) > 1 {
		keys += "   up, down select"
	}
	if m.paused {
		keys += "   PAUSED"
	}
	b.WriteString("\n" + dim.Render(keys))
	return b.String()
}

// details renders the view of one gate: its concurrency over time and its outcomes.
func (m *Model) details(g *Gate) string {
	var b strings.Builder
	if g.Err != nil {
		return bold.Render(cut(g.Name, m.width)) + "\n" + bad.Render(cut(g.Err.Error(), m.width)) + "\n"
	}
	last := g.Last()
	if last == nil {
		return ""
	}
	title := fmt.Sprintf("%s  %s", g.Name, last.Version)
	if last.Started > 0 {
		up := last.At.Sub(time.Unix(int64(last.Started), 0)).Truncate(time.Second)
		title += fmt.Sprintf("  up %s", up)
	}
	b.WriteString(bold.Render(cut(title, m.width)) + "\n")
	_, readiness := g.Readiness()
	b.WriteString(cut("readiness    "+readiness, m.width) + "\n")
	b.WriteString(cut("concurrency  "+chart(g.Samples, m.width-13, func(s *Sample) float64 { return s.InFlight + s.Queued }), m.width) + "\n")
	b.WriteString(cut("queue        "+chart(g.Samples, m.width-13, func(s *Sample) float64 { return s.Queued }), m.width) + "\n")
	if !math.IsInf(last.Limit, 1) {
		b.WriteString(cut("limit        "+chart(g.Samples, m.width-13, func(s *Sample) float64 { return s.Limit })+fmt.Sprintf(", now %.0f", last.Limit), m.width) + "\n")
	}
	outcomes := g.Rates().Outcomes
	names := slices.SortedFunc(maps.Keys(outcomes), func(x, y string) int {
		if outcomes[x] != outcomes[y] {
			return int(math.Copysign(1, outcomes[y]-outcomes[x]))
		}
		return strings.Compare(x, y)
	})
	for i, name := range names {
		if i == 6 {
			break
		}
		b.WriteString(cut(fmt.Sprintf("%-12s %s/s", map[bool]string{true: "outcomes"}[i == 0], perSecond(outcomes[name]))+"  "+name, m.width) + "\n")
	}
	return b.String()
}

// bars are block characters in steps of an eighth.
var bars = []rune("▁▂▃▄▅▆▇█")

// chart renders the last samples, with the latest at the right.
func chart(samples []*Sample, width int, of func(*Sample) float64) string {
	samples = samples[max(0, len(samples)-max(1, width-18)):]
	most := 0.0
	for _, s := range samples {
		most = max(most, of(s))
	}
	var b strings.Builder
	for _, s := range samples {
		level := 0
		if most > 0 {
			level = int(of(s) / most * float64(len(bars)-1))
		}
		b.WriteRune(bars[level])
	}
	return fmt.Sprintf("%s max %.4g", b.String(), most)
}

// Table returns a line of titles and a line for each gate.
func Table(gates []*Gate, width int) []string {
	names := len("GATE")
	for _, g := range gates {
		names = max(names, len([]rune(g.Name)))
	}
	names = min(names, max(12, width-90))
	const form = "%-*s %-5s %7s %9s %9s %7s %7s %7s %7s  %s"
	lines := []string{cut(fmt.Sprintf(form, names, "GATE", "READY", "REQ/S", "IN FLIGHT", "QUEUE", "P50", "P99", "REFUSED", "FAILED", "CAUSE"), width)}
	for _, g := range gates {
		ready, cause := g.Readiness()
		yes := "no"
		if ready {
			yes, cause = "yes", ""
		}
		r := g.Rates()
		inFlight, queue := "-", "-"
		if s := g.Last(); s != nil && g.Err == nil {
			inFlight, queue = of(s.InFlight, s.Limit), of(s.Queued, s.Capacity)
		}
		lines = append(lines, cut(fmt.Sprintf(form, names, cut(g.Name, names), yes, perSecond(r.Requests), inFlight, queue, seconds(r.P50), seconds(r.P99),
			perSecond(r.Refused), perSecond(r.Failed), cause), width))
	}
	return lines
}

func of(n, most float64) string {
	if math.IsInf(most, 1) {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.0f/%.0f", n, most)
}

func perSecond(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func seconds(s float64) string {
	if math.IsNaN(s) {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

// cut shortens text to a width.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-1)]) + "…"
}
