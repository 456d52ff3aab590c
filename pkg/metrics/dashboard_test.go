package metrics

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
)

const (
	configDir     = "../../config"
	dashboardPath = configDir + "/grafana/queuegate.json"
	alertsPath    = configDir + "/prometheus/alerts.yaml"
	scrapePath    = configDir + "/prometheus/scrape.yaml"
	operatorPath  = configDir + "/prometheus/podmonitor.yaml"
)

// exported returns the metrics of a page on which every metric has a value.
func exported(t *testing.T) *vocabulary {
	t.Helper()
	cfg := fullConfig(Both)
	busy(&cfg)
	v := &vocabulary{series: map[string][]string{"up": nil}, target: append(targetLabels(t, scrapePath, "target_label"), "job", "instance")}
	for name, f := range gather(t, newRegistry(NewCollector(cfg))) {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			v.series[name+"_bucket"] = append(slices.Clone(labels), "le")
			v.series[name+"_sum"], v.series[name+"_count"] = labels, labels
		case dto.MetricType_SUMMARY:
			v.series[name] = append(slices.Clone(labels), "quantile")
			v.series[name+"_sum"], v.series[name+"_count"] = labels, labels
		default:
			v.series[name] = labels
		}
	}
	return v
}

// walk calls f for every object in a tree that was parsed from JSON or YAML.
func walk(node any, f func(object map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		f(node)
		for _, child := range node {
			walk(child, f)
		}
	case []any:
		for _, child := range node {
			walk(child, f)
		}
	}
}

// documents parses a file that contains JSON or YAML documents.
func documents(t *testing.T, path string) (all []any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(path) == ".json" {
		var d any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return []any{d}
	}
	for decoder := yaml.NewDecoder(strings.NewReader(string(text))); ; {
		var d any
		switch err := decoder.Decode(&d); {
		case err == nil:
			all = append(all, d)
		case errors.Is(err, io.EOF):
			return all
		default:
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// targetLabels returns the labels that a scrape configuration sets, sorted.
func targetLabels(t *testing.T, path, key string) (labels []string) {
	t.Helper()
	for _, d := range documents(t, path) {
		walk(d, func(o map[string]any) {
			if l, ok := o[key].(string); ok {
				labels = append(labels, l)
			}
		})
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func text(o map[string]any, key string) string {
	s, _ := o[key].(string)
	return s
}

// problemsOf checks every PromQL expression in a file. It also checks the legends and the
// annotations of an expression, which may use only labels of the expression's result.
func (v *vocabulary) problemsOf(all []any) (problems []string, expressions int) {
	for _, d := range all {
		walk(d, func(o map[string]any) {
			if expr := text(o, "expr"); expr != "" {
				expressions++
				wrong, labels := v.check(expr)
				problems = append(problems, wrong...)
				for _, key := range []string{"legendFormat", "titleFormat", "textFormat"} {
					problems = append(problems, checkText(text(o, key), legendLabel, labels)...)
				}
				annotations, _ := o["annotations"].(map[string]any)
				for key := range annotations {
					problems = append(problems, checkText(text(annotations, key), alertLabel, labels)...)
				}
			}
			query := text(o, "query")
			switch {
			case strings.HasPrefix(query, "label_values"):
				expressions++
				problems = append(problems, v.checkVariable(query)...)
			case text(o, "serverAddress") != "" && query != "": // a trigger of KEDA
				expressions++
				wrong, _ := v.check(query)
				problems = append(problems, wrong...)
			}
			if query := text(o, "seriesQuery"); query != "" { // prometheus-adapter
				expressions++
				wrong, _ := v.check(query)
				problems = append(problems, wrong...)
			}
		})
	}
	return problems, expressions
}

func TestExpressionsInConfigUseOnlyExportedMetrics(t *testing.T) {
	v := exported(t)
	counts := map[string]int{}
	err := filepath.WalkDir(configDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "helm" {
			return fs.SkipDir // a template is not valid YAML
		}
		if err != nil || d.IsDir() || !slices.Contains([]string{".json", ".yaml"}, filepath.Ext(path)) {
			return err
		}
		problems, n := v.problemsOf(documents(t, path))
		for _, p := range problems {
			t.Errorf("%s: %s", path, p)
		}
		counts[filepath.Base(path)] = n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{"queuegate.json": 55, "alerts.yaml": 15, "scaledobject.yaml": 1, "adapter.yaml": 2} {
		if counts[name] < least {
			t.Errorf("%s: %d expressions were found, want %d", name, counts[name], least)
		}
	}
}

// selectorText is a selector of PromQL with its matchers.
var (
	selectorText = regexp.MustCompile(`\b([a-z_]+)(?:\{([^}]*)\})?`)
	matcherText  = regexp.MustCompile(`(\w+)\s*(=~|=|!=)\s*"([^"]*)"`)
)

// If a series first appears with the value 1, Prometheus sees no increase. So series
// that an alert or an autoscaler reads must be on the page with the value 0.
func TestAnIdlePageHasEverySeriesThatAlertsAndAutoscalersRead(t *testing.T) {
	page := gather(t, newRegistry(NewCollector(fullConfig(Current))))
	read := 0
	for _, path := range []string{alertsPath, configDir + "/overlays/keda/scaledobject.yaml", configDir + "/overlays/hpa/adapter.yaml"} {
		for _, d := range documents(t, path) {
			walk(d, func(o map[string]any) {
				for _, s := range selectorText.FindAllStringSubmatch(text(o, "expr")+" "+text(o, "query")+" "+text(o, "seriesQuery"), -1) {
					family := page[s[1]]
					if family == nil {
						family = page[strings.TrimSuffix(s[1], "_bucket")]
					}
					if family == nil {
						if slices.ContainsFunc(rows, func(r row) bool { return r.Name == s[1] || r.Name+"_bucket" == s[1] }) {
							t.Errorf("%s reads %s, which an idle page does not have", path, s[1])
						}
						continue // a keyword of PromQL
					}
					read++
					for _, m := range matcherText.FindAllStringSubmatch(s[2], -1) {
						for _, value := range strings.Split(m[3], "|") {
							if !slices.Contains(targetLabels(t, scrapePath, "target_label"), m[1]) && m[2] != "!=" && !hasLabel(family, m[1], value) {
								t.Errorf("%s reads %s with %s=%q, which an idle page does not have", path, s[1], m[1], value)
							}
						}
					}
				}
			})
		}
	}
	if read < 25 {
		t.Errorf("%d selectors were found", read)
	}
}

func hasLabel(f *dto.MetricFamily, name, value string) bool {
	return slices.ContainsFunc(f.Metric, func(m *dto.Metric) bool {
		return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value })
	})
}

func TestExpressionsWithWrongNamesAreFound(t *testing.T) {
	v := exported(t)
	in := func(expr, extra string) string {
		return `{"rules": [{"expr": ` + quote(expr) + extra + `}]}`
	}
	for document, want := range map[string]string{
		in(`rate(queuegate_response_total[5m])`, ``):                                                   "no metric queuegate_response_total",
		in(`queuegate_queue_wait_seconds`, ``):                                                         "no metric queuegate_queue_wait_seconds ",
		in(`queuegate_in_flight_requests_count`, ``):                                                   "no metric",
		in(`a:b{pod="x"} / queuegate_queue_capacity`, ``):                                              "no metric a:b",
		in(`queuegate_responses_total{code="5xx"}`, ``):                                                "has no label code ",
		in(`queuegate_responses_total{code_class="5xx", outcome!~"a"}`, ``):                            "has no label outcome",
		in(`queuegate_queue_wait_seconds_sum{le="1"}`, ``):                                             "has no label le",
		in(`sum by (pod, klass) (queuegate_responses_total)`, ``):                                      "label klass",
		in(`sum(queuegate_responses_total) without (cause)`, ``):                                       "label cause",
		in(`queuegate_in_flight_requests and on (node) queuegate_build_info`, ``):                      "label node",
		in(`queuegate_in_flight_requests * on (pod) group_left (release) queuegate_build_info`, ``):    "label release",
		in(`rote(queuegate_responses_total[5m])`, ``):                                                  "unknown function rote",
		in(`{namespace="x"}`, ``):                                                                      "without a name",
		in(`queuegate_responses_total ?`, ``):                                                          "cannot read",
		in(`1 + 1`, ``):                                                                                "no selector",
		in(`sum by (pod) (queuegate_responses_total)`, `, "legendFormat": "{{code_class}}"`):           "no label code_class",
		in(`sum by (pod) (up)`, `, "annotations": {"summary": "{{ $labels.revision }}"}`):              "no label revision",
		`{"query": "label_values(queuegate_info, pod)"}`:                                               "no metric queuegate_info",
		`{"query": "label_values(queuegate_build_info, nod)"}`:                                         "label nod",
		`{"query": "label_values(pod)"}`:                                                               "is not label_values",
		`{"serverAddress": "http://prometheus", "query": "sum(kn_serving_queue_depths)"}`:              "no metric kn_serving_queue_depths",
		`{"seriesQuery": "queuegate_in_flight{pod!=\"\"}"}`:                                            "no metric queuegate_in_flight ",
		in("queuegate_in_flight_requests # {x=\"y\"}\n + queuegate_queue_capacity{none='1'}[5m:]", ``): "no label none",
	} {
		var d any
		if err := json.Unmarshal([]byte(document), &d); err != nil {
			t.Fatal(err)
		}
		problems, n := v.problemsOf([]any{d})
		if n != 1 || len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: of %d expressions %q, want one with %q", document, n, problems, want)
		}
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestBothScrapeConfigurationsSetTheSameLabels(t *testing.T) {
	want := []string{"namespace", "pod", "revision"}
	if got := targetLabels(t, scrapePath, "target_label"); !slices.Equal(got, want) {
		t.Errorf("%s sets %q, want %q", scrapePath, got, want)
	}
	// podmonitor.yaml also sets the label job. In scrape.yaml, job_name sets it.
	if got := targetLabels(t, operatorPath, "targetLabel"); !slices.Equal(got, append([]string{"job"}, want...)) {
		t.Errorf("%s sets %q, want job and %q", operatorPath, got, want)
	}
}

type dashboard struct {
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

var grafanaVariable = regexp.MustCompile(`\$\{?(\w+)`)

func TestTheDashboardIsConsistent(t *testing.T) {
	file, err := os.ReadFile(dashboardPath)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := []string{"datasource", "namespace", "revision", "pod"}; !slices.Equal(variables[1:], want) {
		t.Errorf("variables %q, want %q", variables[1:], want)
	}
	for _, m := range grafanaVariable.FindAllStringSubmatch(string(file), -1) {
		if !slices.Contains(variables, m[1]) && m[1] != "__all" {
			t.Errorf("no variable %s", m[0])
		}
	}
	titles, taken := map[string]bool{}, map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || titles[p.Title] || ids[p.ID] {
			t.Errorf("panel %d %q: no title, or the title or the id of another", p.ID, p.Title)
		}
		titles[p.Title], ids[p.ID] = true, true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s overlaps %q or the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: description %q, %d targets, data source %s", p.Title, p.Description, len(p.Targets), p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: data source %s", p.Title, target.Datasource.UID)
			}
			for _, name := range variables[2:] {
				if !strings.Contains(target.Expr, name+`=~"$`+name+`"`) {
					t.Errorf("%s: %s is not narrowed by %s", p.Title, target.Expr, name)
				}
			}
		}
	}
}

func TestEveryAlertHasASummaryAndADescription(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range documents(t, alertsPath) {
		walk(d, func(o map[string]any) {
			name := text(o, "alert")
			if name == "" {
				return
			}
			labels, _ := o["labels"].(map[string]any)
			annotations, _ := o["annotations"].(map[string]any)
			if seen[name] || !slices.Contains([]string{"critical", "warning"}, text(labels, "severity")) {
				t.Errorf("%s: twice, or of severity %q", name, labels["severity"])
			}
			seen[name] = true
			for _, key := range []string{"summary", "description", "runbook"} {
				if text(annotations, key) == "" {
					t.Errorf("%s: no %s", name, key)
				}
			}
		})
	}
	if len(seen) < 15 {
		t.Errorf("%d alerts", len(seen))
	}
}
