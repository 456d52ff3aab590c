package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// expression has the names in a PromQL expression.
type expression struct {
	selectors []selector
	by        []string // label names in "by (...)" and "without (...)"
	matched   []string // label names in "on", "ignoring", "group_left" and "group_right"
}

// selector is a selector of PromQL: the name of the metric and the labels in braces.
type selector struct {
	name   string
	labels []string
}

var (
	promWord = regexp.MustCompile(
		"^(?:\\s+|#[^\n]*" + // skipped
			"|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`" + // strings
			"|\\[[^\\]]*\\]" + // ranges
			"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9][0-9a-zA-Z.]*" + // names, numbers, durations
			"|=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},@])")
	promName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

	promFunctions = []string{
		"sum", "min", "max", "avg", "count", "quantile", "topk", "rate", "increase", "irate", "delta", "deriv", "changes", "resets",
		"histogram_quantile", "absent", "vector", "scalar", "time", "clamp_min", "clamp_max", "ceil", "round",
		"min_over_time", "max_over_time", "avg_over_time", "sum_over_time",
	}
	promOperators = []string{"and", "or", "unless", "bool", "offset", "Inf", "NaN"}
	promBy        = []string{"by", "without"}
	promMatch     = []string{"on", "ignoring", "group_left", "group_right"}
)

// parseExpression returns an error if it cannot split the expression or if a function
// is unknown.
func parseExpression(text string) (*expression, error) {
	words, err := promWords(text)
	if err != nil {
		return nil, err
	}
	x := &expression{}
	// list returns the names that follow words[i], up to the next closing bracket. The
	// parameter closing is this bracket. The result end is its index.
	list := func(i int, closing string) (names []string, end int) {
		for i++; i < len(words) && words[i] != closing; i++ {
			if promName.MatchString(words[i]) {
				names = append(names, words[i])
			}
		}
		return names, i
	}
	next := func(i int) string {
		if i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "{":
			return nil, fmt.Errorf("a selector without a name in %q", text)
		case !promName.MatchString(w) || slices.Contains(promOperators, w):
		case slices.Contains(promBy, w) && next(i) == "(":
			names, end := list(i+1, ")")
			x.by, i = append(x.by, names...), end
		case slices.Contains(promMatch, w):
			if next(i) == "(" {
				names, end := list(i+1, ")")
				x.matched, i = append(x.matched, names...), end
			}
		case next(i) == "(" || slices.Contains(promBy, next(i)):
			if !slices.Contains(promFunctions, w) {
				return nil, fmt.Errorf("unknown function %s in %q", w, text)
			}
		default:
			s := selector{name: w}
			if next(i) == "{" {
				s.labels, i = list(i+1, "}")
			}
			x.selectors = append(x.selectors, s)
		}
	}
	if len(x.selectors) == 0 {
		return nil, fmt.Errorf("no selector in %q", text)
	}
	return x, nil
}

// promWords splits a PromQL expression into names, numbers, operators and brackets. It
// omits white space, comments, strings and ranges.
func promWords(text string) (words []string, err error) {
	for text != "" {
		w := promWord.FindString(text)
		if w == "" {
			return nil, fmt.Errorf("cannot read %q", text)
		}
		text = text[len(w):]
		if !strings.ContainsAny(w[:1], " \t\n\r#\"'`[") {
			words = append(words, w)
		}
	}
	return words, nil
}

// vocabulary has the labels of each exported series, and the labels that the scrape
// configuration adds to every series.
type vocabulary struct {
	series map[string][]string
	target []string
}

// check returns the problems of an expression, and the labels of its result.
func (v *vocabulary) check(text string) (problems, labels []string) {
	x, err := parseExpression(text)
	if err != nil {
		return []string{err.Error()}, nil
	}
	known := slices.Clone(v.target)
	for _, s := range x.selectors {
		has, ok := v.series[s.name]
		if !ok {
			problems = append(problems, fmt.Sprintf("no metric %s in %q", s.name, text))
		}
		known = append(known, has...)
		for _, l := range s.labels {
			if !slices.Contains(has, l) && !slices.Contains(v.target, l) {
				problems = append(problems, fmt.Sprintf("%s has no label %s in %q", s.name, l, text))
			}
		}
	}
	for _, l := range slices.Concat(x.by, x.matched) {
		if !slices.Contains(known, l) {
			problems = append(problems, fmt.Sprintf("nothing has a label %s in %q", l, text))
		}
	}
	if len(x.by) > 0 {
		return problems, x.by
	}
	return problems, known
}

var labelValues = regexp.MustCompile(`^label_values\((.+),\s*(\w+)\)$`)

// checkVariable returns the problems of the query of a dashboard variable.
func (v *vocabulary) checkVariable(query string) []string {
	m := labelValues.FindStringSubmatch(query)
	if m == nil {
		return []string{fmt.Sprintf("%q is not label_values(series, label)", query)}
	}
	problems, labels := v.check(m[1])
	if problems == nil && !slices.Contains(labels, m[2]) {
		problems = []string{fmt.Sprintf("nothing has a label %s in %q", m[2], query)}
	}
	return problems
}

var (
	legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
)

// checkText finds the label names in a legend or in an annotation. The parameter labels
// has the labels of the expression's result. checkText returns a problem for each name
// that is not among these labels.
func checkText(text string, named *regexp.Regexp, labels []string) (problems []string) {
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(labels, m[1]) {
			problems = append(problems, fmt.Sprintf("the result has no label %s for %q", m[1], text))
		}
	}
	return problems
}
