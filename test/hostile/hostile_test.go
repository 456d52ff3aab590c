package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	workers        = 8
	leastRequests  = 350
	leastResponses = 120
)

// The test also parses every script.
func TestTheCorpusHasItsMinimumSize(t *testing.T) {
	cases, err := readCorpus()
	if err != nil {
		t.Fatal(err)
	}
	requests, responses := 0, 0
	for _, c := range cases {
		if c.testsResponse() {
			responses++
		} else {
			requests++
		}
		for i, v := range variantsOf(c, 1) {
			if _, err := newRun(c, v, i, 1); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d requests, %d responses", requests, responses)
	if requests < leastRequests || responses < leastResponses {
		t.Errorf("%d requests and %d responses, want at least %d and %d", requests, responses, leastRequests, leastResponses)
	}
}

func TestTheGateHandlesEveryHostileMessageAsExpected(t *testing.T) {
	cases, err := readCorpus()
	if err != nil {
		t.Fatal(err)
	}
	if only := os.Getenv("QUEUEGATE_HOSTILE_CASE"); only != "" {
		var chosen []*hostileCase
		for _, c := range cases {
			if strings.Contains(c.file+" "+c.name, only) {
				chosen = append(chosen, c)
			}
		}
		cases = chosen
	}
	count, newTarget := workers, func(int) (*target, error) { return startGate() }
	running, err := runningTarget()
	if err != nil {
		t.Fatal(err)
	}
	if running != nil {
		count, newTarget = 1, func(int) (*target, error) { return running, nil }
	}
	outcomes, err := playParallel(count, newTarget, cases)
	if err != nil {
		t.Fatal(err)
	}
	report(t, cases, outcomes)
}

func report(t *testing.T, cases []*hostileCase, outcomes []*outcome) {
	byCase := map[*hostileCase][]*outcome{}
	byFile := map[string][]*hostileCase{}
	var files []string
	for _, o := range outcomes {
		byCase[o.c] = append(byCase[o.c], o)
	}
	for _, c := range cases {
		if byFile[c.file] == nil {
			files = append(files, c.file)
		}
		byFile[c.file] = append(byFile[c.file], c)
	}
	for _, file := range files {
		t.Run(filepath.ToSlash(strings.TrimSuffix(file, ".txt")), func(t *testing.T) {
			for _, c := range byFile[file] {
				t.Run(c.name, func(t *testing.T) {
					if len(byCase[c]) == 0 {
						t.Error("not run: the process ended before")
					}
					for _, o := range byCase[c] {
						if len(o.findings) > 0 {
							t.Error(o.describe())
						}
					}
				})
			}
		})
	}
	t.Log(summary(cases, outcomes))
}

// summary counts the findings of each kind, over the cases and over all runs.
func summary(cases []*hostileCase, outcomes []*outcome) string {
	var plain []*outcome
	for _, o := range outcomes {
		if o.variant == "" {
			plain = append(plain, o)
		}
	}
	inCases, inRuns := count(plain), count(outcomes)
	var all strings.Builder
	fmt.Fprintf(&all, "%d cases, %d runs;", len(cases), len(outcomes))
	for _, k := range findingKinds {
		fmt.Fprintf(&all, " %s %d/%d", k, inCases[k], inRuns[k])
	}
	return all.String()
}

func (o *outcome) describe() string {
	var all strings.Builder
	fmt.Fprintf(&all, "%s; %s %v", o.c.section, o.variant, o.wants)
	for _, v := range o.findings {
		fmt.Fprintf(&all, "\n%s: %s", v.kind, v.text)
	}
	fmt.Fprintf(&all, "\nsent:\n%s", excerpt(o.sent))
	if o.c.testsResponse() {
		fmt.Fprintf(&all, "\ncontainer sent:\n%s", excerpt(written(o.response)))
	}
	fmt.Fprintf(&all, "\nclient got (end %d):\n%s", o.end, excerpt(o.stream))
	return all.String()
}

// excerpt quotes up to 600 bytes, line by line.
func excerpt(b []byte) string {
	quoted := strings.ReplaceAll(fmt.Sprintf("%.600q", b), `\n`, "\\n\n    ")
	if len(b) > 600 {
		quoted += fmt.Sprintf(" … %d bytes", len(b))
	}
	return "    " + quoted
}
