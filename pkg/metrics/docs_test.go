package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

const (
	docsPath  = "../../docs/metrics.md"
	docsBegin = "<!-- metrics: begin; go test ./pkg/metrics -run Docs -update -->\n"
	docsEnd   = "<!-- metrics: end -->\n"
)

func TestDocsListTheMetricsOfTheCode(t *testing.T) {
	testkit.Section(t, docsPath, docsBegin, docsEnd, metricTables(t))
}

// metricTables returns the documentation of all metrics as Markdown tables: the metrics
// in the variable rows, the metrics that client_golang exports for the Go runtime and the
// process, and the metrics for the autoscaler.
func metricTables(t *testing.T) string {
	cfg := fullConfig(Both)
	busy(&cfg)
	page := gather(t, newRegistry(NewCollector(cfg)))
	var b strings.Builder
	table := func(title string, metrics []Metric) {
		fmt.Fprintf(&b, "\n### %s\n\n| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n", title)
		for _, m := range metrics {
			labels := "none"
			if len(m.Labels) > 0 {
				labels = "`" + strings.Join(m.Labels, "`, `") + "`"
			}
			unit := m.Unit
			if unit == "" {
				unit = "none"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, unit, labels, strings.ReplaceAll(m.Help, "|", `\|`))
		}
	}
	of := func(names Names) (all []Metric) {
		for i := range rows {
			f := &rows[i]
			if f.names != names {
				continue
			}
			all = append(all, f.Metric)
			shown := page[f.Name]
			if shown == nil || shown.GetHelp() != f.Help || strings.ToLower(shown.GetType().String()) != string(f.Kind) {
				t.Errorf("%s is not on the page as it is described: %v", f.Name, shown)
			}
			delete(page, f.Name)
		}
		return all
	}
	table("Port 9091: always", of(always))
	table("Port 9091: Knative's current names", of(Current))
	table("Port 9091: Knative's legacy names", of(Legacy))

	var rest []Metric
	for _, name := range slices.Sorted(maps.Keys(page)) {
		f := page[name]
		m := Metric{Name: name, Kind: Kind(strings.ToLower(f.GetType().String())), Help: f.GetHelp()}
		for _, unit := range []string{"bytes", "seconds"} {
			if strings.Contains(name, "_"+unit) {
				m.Unit = unit
			}
		}
		for _, l := range f.Metric[0].Label {
			m.Labels = append(m.Labels, l.GetName())
		}
		rest = append(rest, m)
	}
	table("Port 9091: Go runtime and process", rest)

	var stat []Metric
	for _, m := range statText {
		stat = append(stat, m.Metric)
	}
	table("Port 9090: the autoscaler's metrics as text", stat)
	b.WriteString("\n")
	return b.String()
}
