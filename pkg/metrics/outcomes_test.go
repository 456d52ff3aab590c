package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
)

const refusalsPanel = "Refusals by outcome"

var outcomeMatcher = regexp.MustCompile(`\boutcome(=~?)"([^"]*)"`)

// selected reads the PromQL expressions of the panels or alerts in a file. For the title
// of each panel or alert, it returns the outcomes that the expressions select by the
// label outcome. It reports an error for a label value that matches no outcome.
func selected(t *testing.T, path, titleKey string) map[string][]gate.Outcome {
	t.Helper()
	all := map[string][]gate.Outcome{}
	for _, d := range documents(t, path) {
		walk(d, func(o map[string]any) {
			title := text(o, titleKey)
			// The dashboard also has a title, but it is not a panel. Only the dashboard
			// contains panels.
			if title == "" || o["panels"] != nil {
				return
			}
			walk(o, func(o map[string]any) {
				for _, m := range outcomeMatcher.FindAllStringSubmatch(text(o, "expr"), -1) {
					names := []string{regexp.QuoteMeta(m[2])}
					if m[1] == "=~" {
						names = strings.Split(m[2], "|")
					}
					for _, name := range names {
						matches := slices.DeleteFunc(gate.Outcomes(), func(o gate.Outcome) bool {
							return !regexp.MustCompile("^(?:" + name + ")$").MatchString(o.String())
						})
						if len(matches) == 0 {
							t.Errorf("%s: %q selects the outcome %q, which does not exist", path, title, name)
						}
						all[title] = append(all[title], matches...)
					}
				}
			})
		})
	}
	return all
}

// refusals returns the outcomes of the panel "Refusals by outcome": all except
// successes and outcomes of other panels.
func refusals(t *testing.T) (names []string) {
	var elsewhere []gate.Outcome
	for title, outcomes := range selected(t, dashboardPath, "title") {
		if title != refusalsPanel {
			elsewhere = append(elsewhere, outcomes...)
		}
	}
	for _, o := range gate.Outcomes() {
		if o.Class() != gate.ClassSucceeded && !slices.Contains(elsewhere, o) {
			names = append(names, o.String())
		}
	}
	return names
}

func TestTheDashboardShowsEveryFailedOutcome(t *testing.T) {
	file, err := os.ReadFile(dashboardPath)
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(file), `"title": "`+refusalsPanel+`"`)
	at := regexp.MustCompile(`outcome=~\\"([^"\\]*)\\"`).FindSubmatchIndex(file[max(begin, 0):])
	if begin < 0 || at == nil {
		t.Fatalf("%s has no panel %q that selects outcomes", dashboardPath, refusalsPanel)
	}
	got, want := string(file[begin+at[2]:begin+at[3]]), strings.Join(refusals(t), "|")
	switch {
	case got == want:
	case *testkit.Update:
		changed := slices.Replace(file, begin+at[2], begin+at[3], []byte(want)...)
		if err := os.WriteFile(dashboardPath, changed, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%q shows %s, want %s; run: go test ./pkg/metrics -run Dashboard -update", refusalsPanel, got, want)
	}
}

func TestAnAlertCoversEveryOutcomeLoggedAsAWarning(t *testing.T) {
	var alerted []gate.Outcome
	for _, outcomes := range selected(t, alertsPath, "alert") {
		alerted = append(alerted, outcomes...)
	}
	for _, o := range gate.Outcomes() {
		if warned := o.Meaning().Level >= gate.Warn; warned != slices.Contains(alerted, o) {
			t.Errorf("%v: logged as a warning: %v; selected by an alert of %s: %v", o, warned, alertsPath, !warned)
		}
	}
}
