package torture

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// row is a row of the table of faults.
type row struct {
	name           string
	events         int // kills, cuts or stops
	sent, seen     int
	counts         [numResults]int
	replies        map[string]int
	twice, retried int
	broken         int // the container received the request, and the response was cut
	unserved       int // not served although no fault justifies it
	gauges         string
	rss, rssAfter  float64
	notes          []string
}

// budgetRow is a row of the table of budgets.
type budgetRow struct {
	name                 string
	attacks              int
	honest, failed       int
	beforeAttack, during quantiles
	direct               quantiles // latencies of a client that bypasses the gate, during the attack
	peak, afterAttack    float64   // in MiB
	ceiling              float64   // in MiB; 0 = none
	back                 time.Duration
	skipped              string
}

// floodRow is a row of the table of floods over HTTP/2.
type floodRow struct {
	name                 string
	connections          int
	beforeAttack, during quantiles
	direct               quantiles // latencies of a client that bypasses the gate
	numRequests, failed  int       // requests of the innocent client
	growth               float64   // growth of RSS in MiB
	bursts               int       // bursts of the attackers
	yields               string    // scheduling policy of the attackers
	numByEnding          map[string]int
	alive                bool
}

var (
	rows      []row
	budgets   []budgetRow
	floodRows []floodRow
)

func enterFlood(f floodRow) { floodRows = append(floodRows, f) }

// enter checks the row, and adds it to its table.
func (r row) enter(t *testing.T) {
	t.Helper()
	rows = append(rows, r)
	for name, n := range map[string]int{
		"lost": r.counts[lost], "wrong responses": r.counts[wrongResponse], "executed twice": r.twice,
		"without a result": r.counts[pending], "without the expected 200": r.unserved,
	} {
		if n != 0 {
			t.Errorf("%s: %d, want 0", name, n)
		}
	}
	if r.counts[served] == 0 {
		t.Error("no request was served")
	}
	if r.gauges != "0" {
		t.Errorf("gauges do not return to 0: %s", r.gauges)
	}
	for _, n := range r.notes {
		t.Log(n)
	}
	if t.Failed() {
		t.Logf("SEED=%d", seed)
	}
}

func report(to io.Writer) {
	fmt.Fprintf(to, "seed %d, scale %.2f\n", seed, scale)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(rows) > 0 {
		fmt.Fprintln(w, "experiment\tevents\tsent\treceived\tserved\trejected\tcut\taborted\tnot sent\tretried\tbroken\tlost\ttwice\twrong\tunserved\tgauges\tRSS MiB\tafter\t")
	}
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%.1f\t%.1f\t\n", r.name, r.events, r.sent, r.seen,
			r.counts[served], r.counts[rejected], r.counts[cut], r.counts[aborted], r.counts[notSent], r.retried, r.broken,
			r.counts[lost], r.twice, r.counts[wrongResponse], r.unserved, r.gauges, r.rss, r.rssAfter)
	}
	_ = w.Flush()
	all := map[string]int{}
	for _, r := range rows {
		for outcome, n := range r.replies {
			all[outcome] += n
		}
	}
	var replies []string
	for _, outcome := range slices.Sorted(maps.Keys(all)) {
		replies = append(replies, fmt.Sprintf("%s %d", outcome, all[outcome]))
	}
	if len(replies) > 0 {
		fmt.Fprintln(to, "rejected:", strings.Join(replies, ", "))
	}
	if len(budgets) > 0 {
		fmt.Fprintln(w, "\nexperiment\tattacks\thonest\tfailed\tp50 before\tduring\tp99 before\tduring\tno gate\tpeak MiB\tceiling\tafter\tback in\tleft out\t")
	}
	for _, b := range budgets {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%v\t%v\t%v\t%v\t%.1f\t%.1f\t%.1f\t%v\t%s\t\n", b.name, b.attacks, b.honest, b.failed,
			b.beforeAttack.p50, b.during.p50, b.beforeAttack.p99, b.during.p99, b.direct.p99, b.peak, b.ceiling, b.afterAttack, b.back, b.skipped)
	}
	_ = w.Flush()
	if len(floodRows) > 0 {
		fmt.Fprintln(w, "\nflood over HTTP/2\tconnections\tp50 before\tduring\tp99 before\tduring\tno gate\tinnocent served\tbursts\tattackers\tRSS grew MiB\tended by the gate\talive\t")
	}
	for _, f := range floodRows {
		var texts []string
		for _, ending := range slices.Sorted(maps.Keys(f.numByEnding)) {
			texts = append(texts, fmt.Sprintf("%s %d", ending, f.numByEnding[ending]))
		}
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%v\t%v\t%v\t%d of %d\t%d\t%s\t%.1f\t%s\t%v\t\n", f.name, f.connections, f.beforeAttack.p50, f.during.p50, f.beforeAttack.p99, f.during.p99, f.direct.p99,
			f.numRequests-f.failed, f.numRequests, f.bursts, f.yields, f.growth, strings.Join(texts, ", "), f.alive)
	}
	_ = w.Flush()
}

type quantiles struct{ p50, p99 time.Duration }

func quantilesOf(all []time.Duration) (q quantiles) {
	if len(all) > 0 {
		slices.Sort(all)
		q.p50, q.p99 = all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond)
	}
	return q
}
