package manifests

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe"
	"github.com/queuegate/queuegate/pkg/probe/check"
)

func TestAutoscalersReadGaugesThatExist(t *testing.T) {
	metrics := firstColumn(t, metricsDoc)
	found := 0
	for _, f := range files(t) {
		for _, d := range f.documents {
			walk(d, func(o map[string]any) {
				metric, ok := o["metric"].(map[string]any)
				if !ok {
					return
				}
				found++
				if row := metrics[metric["name"].(string)]; row == nil || row[1] != "gauge" {
					t.Errorf("%s: %v is no gauge: %q", f.name, metric["name"], row)
				}
			})
		}
	}
	if found != 2 {
		t.Errorf("%d metrics, want 2", found)
	}
}

// labelValues returns all possible values of some labels of the gate's metrics, by label
// name. A label is included if its values are a fixed list in the code.
func labelValues() map[string][]string {
	known := map[string][]string{
		"code_class": {"1xx", "2xx", "3xx", "4xx", "5xx", "other"},
		"cause":      check.CauseWords(),
	}
	for _, o := range gate.Outcomes() {
		known["outcome"] = append(known["outcome"], o.String())
	}
	for _, s := range probe.States() {
		known["state"] = append(known["state"], s.String())
	}
	return known
}

var matcher = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)

// unknownWords checks the values of labels in a PromQL expression. It returns the
// values that the gate never gives to the label, each after the label's name. It skips
// labels that are not in words. In a regular expression, each alternative counts as a
// value. The result checked is the number of values that it has checked.
func unknownWords(expression string) (unknown []string, checked int) {
	known := labelValues()
	for _, m := range matcher.FindAllStringSubmatch(expression, -1) {
		label, operator, value := m[1], m[2], m[3]
		if known[label] == nil {
			continue
		}
		for alternative := range strings.SplitSeq(value, "|") {
			checked++
			pattern := "^(?:" + alternative + ")$"
			if !strings.HasSuffix(operator, "~") {
				pattern = "^" + regexp.QuoteMeta(alternative) + "$"
			}
			if !slices.ContainsFunc(known[label], regexp.MustCompile(pattern).MatchString) {
				unknown = append(unknown, label+" "+alternative)
			}
		}
	}
	return unknown, checked
}

func TestValuesOfLabelsInExpressionsExist(t *testing.T) {
	checked := 0
	for _, f := range files(t) {
		for _, d := range f.documents {
			walk(d, func(o map[string]any) {
				for _, value := range o {
					expression, _ := value.(string)
					unknown, n := unknownWords(expression)
					checked += n
					if unknown != nil {
						t.Errorf("%s: %q in %q", f.name, unknown, expression)
					}
				}
			})
		}
	}
	if checked < 35 {
		t.Errorf("only %d values", checked)
	}
}

func TestExpressionsWithUnknownLabelValuesAreReported(t *testing.T) {
	for expression, want := range map[string][]string{
		`x{outcome="queue-ful"}`:                         {"outcome queue-ful"},
		`x{outcome=~"queue-full|upstream-.+|gone"}`:      {"outcome gone"},
		`x{outcome="upstream-.+"}`:                       {"outcome upstream-.+"},
		`x{state!="redy", container="any", pod=~"$pod"}`: {"state redy"},
		`x{code_class!~"5xx|6xx"} + y{cause="refuse"}`:   {"code_class 6xx", "cause refuse"},
		`x{outcome="served", state=~"down|failing"}`:     nil,
	} {
		if got, _ := unknownWords(expression); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
