package top

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// fetchTimeout limits the time to read the metrics of a gate.
const fetchTimeout = 3 * time.Second

// listEvery is the interval at which the gates are listed.
const listEvery = 5 * time.Second

// List returns the current gates.
type List func(context.Context) ([]Source, error)

// Model is the live view. Call its methods only on its event loop.
type Model struct {
	ctx      context.Context
	events   chan event
	gates    []*Gate
	list     List
	listErr  error
	interval time.Duration
	selected int
	width    int
	paused   bool
	plain    bool // without colors
}

// NewModel returns a view of gates. The view reads the metrics of each gate at the given
// interval until ctx ends. If the function list is not nil, the view also calls it at
// intervals of listEvery, and then adds and removes gates by name.
func NewModel(ctx context.Context, sources []Source, list List, interval time.Duration) *Model {
	m := &Model{ctx: ctx, events: make(chan event), list: list, interval: interval, width: 80}
	for _, s := range sources {
		m.gates = append(m.gates, m.start(s))
	}
	return m
}

// An event changes the view.
type event any

type (
	key     string
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

// start returns a new gate for a source. Removing the gate ends its context, so that poll
// stops reading it.
func (m *Model) start(s Source) *Gate {
	g := &Gate{Source: s}
	g.ctx, g.remove = context.WithCancel(m.ctx)
	return g
}

// poll reads a gate until it is removed.
func (m *Model) poll(g *Gate) {
	m.every(g.ctx, m.interval, func() event {
		ctx, cancel := context.WithTimeout(g.ctx, fetchTimeout)
		defer cancel()
		sample, err := g.Fetch(ctx)
		return fetched{g, sample, err}
	})
}

// pollList lists the gates until ctx ends.
func (m *Model) pollList() {
	m.every(m.ctx, listEvery, func() event {
		ctx, cancel := context.WithTimeout(m.ctx, listEvery)
		defer cancel()
		sources, err := m.list(ctx)
		return listed{sources, err}
	})
}

// every repeatedly calls next and sends the returned event. It waits for the interval
// between two calls, and stops when ctx ends.
func (m *Model) every(ctx context.Context, interval time.Duration, next func() event) {
	for {
		select {
		case m.events <- next():
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return
		}
	}
}

// replace sets the list of gates. It keeps the samples of remaining gates.
func (m *Model) replace(sources []Source) (added []*Gate) {
	var gates []*Gate
	selected := 0
	for _, s := range sources {
		i := slices.IndexFunc(m.gates, func(g *Gate) bool { return g.Name == s.Name })
		if i < 0 {
			g := m.start(s)
			gates, added = append(gates, g), append(added, g)
			continue
		}
		if i == m.selected {
			selected = len(gates)
		}
		gates = append(gates, m.gates[i])
	}
	for _, g := range m.gates {
		if !slices.Contains(gates, g) {
			g.remove()
		}
	}
	m.gates, m.selected = gates, selected
	return added
}

// update handles an event. The result quit is true if the user has ended the view. The
// result added contains the gates that the event has added to the view.
func (m *Model) update(e event) (quit bool, added []*Gate) {
	switch e := e.(type) {
	case fetched:
		if !m.paused {
			e.gate.Add(e.sample, e.err)
		}
	case listed:
		if m.listErr = e.err; e.err == nil && !m.paused {
			added = m.replace(e.sources)
		}
	case key:
		switch e {
		case "q", escape, "\x03": // Ctrl-C
			return true, nil
		case "k", "\x1b[A", "\x1bOA": // up
			m.selected = max(0, m.selected-1)
		case "j", "\x1b[B", "\x1bOB": // down
			m.selected = max(0, min(len(m.gates)-1, m.selected+1))
		case "p", " ":
			m.paused = !m.paused
		}
	}
	return false, added
}

// style is a sequence of terminal attributes (SGR).
type style string

const (
	bold    style = "1"
	dim     style = "2"
	reverse style = "7"
	green   style = "32"
	boldRed style = "1;31"
)

func (m *Model) styled(s style, text string) string {
	if m.plain && (s == green || s == boldRed) {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// view renders the screen.
func (m *Model) view() string {
	var b strings.Builder
	for _, l := range table(m.gates, m.width) {
		s := boldRed
		switch {
		case l.gate < 0:
			s = bold
		case l.gate == m.selected && len(m.gates) > 1:
			s = reverse
		case m.gates[l.gate].IsPending():
			s = dim
		default:
			if ready, _ := m.gates[l.gate].Readiness(); ready {
				s = green
			}
		}
		b.WriteString(m.styled(s, l.text) + "\n")
	}
	b.WriteString("\n")
	if len(m.gates) == 0 {
		b.WriteString("no pod is running\n")
	} else {
		b.WriteString(m.details(m.gates[m.selected]))
	}
	if m.listErr != nil {
		b.WriteString(m.styled(boldRed, cut(m.listErr.Error(), m.width)) + "\n")
	}
	keys := "q quit   p pause"
	if len(m.gates) > 1 {
		keys += "   up, down select"
	}
	if m.paused {
		keys += "   PAUSED"
	}
	b.WriteString("\n" + m.styled(dim, keys))
	return b.String()
}

// details renders one gate: its concurrency over time and its outcomes.
func (m *Model) details(g *Gate) string {
	var b strings.Builder
	if g.Err != nil {
		return m.styled(bold, cut(g.Name, m.width)) + "\n" + m.styled(boldRed, cut(g.Err.Error(), m.width)) + "\n"
	}
	last := g.Last()
	if last == nil {
		return ""
	}
	title := fmt.Sprintf("%s  %s", g.Name, last.Version)
	if last.Started > 0 {
		up := last.Time.Sub(time.Unix(int64(last.Started), 0)).Truncate(time.Second)
		title += fmt.Sprintf("  up %s", up)
	}
	b.WriteString(m.styled(bold, cut(title, m.width)) + "\n")
	_, readiness := g.Readiness()
	b.WriteString(cut("readiness    "+readiness, m.width) + "\n")
	b.WriteString(cut("concurrency  "+chart(g.Samples, m.width-13, func(s *Sample) float64 { return s.InFlight }), m.width) + "\n")
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

// chart renders the last samples, the latest at the right.
func chart(samples []*Sample, width int, value func(*Sample) float64) string {
	samples = samples[max(0, len(samples)-max(1, width-18)):]
	most := 0.0
	for _, s := range samples {
		most = max(most, value(s))
	}
	var b strings.Builder
	for _, s := range samples {
		level := 0
		if most > 0 {
			level = int(value(s) / most * float64(len(bars)-1))
		}
		b.WriteRune(bars[level])
	}
	return fmt.Sprintf("%s max %.4g", b.String(), most)
}

// line is a line of the table.
type line struct {
	gate int // index of the gate that the line shows; -1 = line of titles
	text string
}

// Table returns a line of titles and a line for each gate. If a gate is not ready, the
// cause is at the end of the line, or on a separate line if it does not fit.
func Table(gates []*Gate, width int) (lines []string) {
	for _, l := range table(gates, width) {
		lines = append(lines, l.text)
	}
	return lines
}

// figuresWidth is the width of the columns between GATE and CAUSE.
const figuresWidth = 66

// table returns the lines of Table.
func table(gates []*Gate, width int) (lines []line) {
	names := len("GATE")
	for _, g := range gates {
		names = max(names, len([]rune(g.Name)))
	}
	names = min(names, max(12, width-figuresWidth))
	add := func(gate int, name, ready, rate, inFlight, queue, p50, p99, rejected, failed, cause string) {
		text := fmt.Sprintf("%-*s %-5s %6s %9s %9s %6s %6s %7s %6s", names, cut(name, names), ready, rate, inFlight, queue, p50, p99, rejected, failed)
		fits := len([]rune(text+"  "+cause)) <= width
		if cause != "" && fits {
			text += "  " + cause
		}
		lines = append(lines, line{gate, cut(text, width)})
		if gate >= 0 && !fits && cause != "" {
			lines = append(lines, line{gate, cut("  "+cause, width)})
		}
	}
	add(-1, "GATE", "READY", "REQ/S", "IN FLIGHT", "QUEUE", "P50", "P99", "REFUSED", "FAILED", "CAUSE")
	for i, g := range gates {
		ready, cause := g.Readiness()
		yes := "no"
		switch {
		case g.IsPending():
			yes, cause = "-", ""
		case ready:
			yes, cause = "yes", ""
		}
		r := g.Rates()
		inFlight, queue := "-", "-"
		if s := g.Last(); s != nil && g.Err == nil {
			inFlight, queue = withLimit(s.InFlight, s.Limit), withLimit(s.Queued, s.Capacity)
		}
		add(i, g.Name, yes, perSecond(r.Requests), inFlight, queue, seconds(r.P50), seconds(r.P99), perSecond(r.Rejected), perSecond(r.Failed), cause)
	}
	return lines
}

func withLimit(n, most float64) string {
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
