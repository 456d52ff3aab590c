package exchange

import (
	"math"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// loadedGate is a gate with load reports and a fake clock.
type loadedGate struct {
	*Gate
	t   *testing.T
	now int64
}

func newLoadedGate(t *testing.T, limit, capacity int) *loadedGate {
	l := &loadedGate{&Gate{Config: Config{ConcurrencyLimit: limit, QueueCapacity: capacity, LoadReports: RequestedLoadReports}}, t, 1}
	if err := l.Init(); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *loadedGate) begin() *Exchange {
	x := new(Exchange)
	x.Bind(l.Gate, func() int64 { return l.now }, func() {}, nil)
	x.Begin(l.now, nil, nil)
	if o := x.enqueue(); o != gate.Undecided {
		x.End(o)
		return nil
	}
	return x
}

// serve simulates a period in which requests arrive at a constant rate. The last parameter
// is the length of the period. The parameter perSecond is the number of arrivals per
// second. The parameter took is the time from the arrival to the end of each request.
func (l *loadedGate) serve(perSecond int, took, during time.Duration) {
	type request struct {
		x   *Exchange
		end int64
	}
	var open []request
	for end := l.now + int64(during); l.now < end; l.now += int64(time.Second) / int64(perSecond) {
		for len(open) > 0 && open[0].end <= l.now {
			at := l.now
			l.now = open[0].end
			open[0].x.End(gate.Served)
			l.now, open = at, open[1:]
		}
		open = append(open, request{l.begin(), l.now + int64(took)})
	}
	for _, r := range open {
		l.now = max(l.now, r.end)
		r.x.End(gate.Served)
	}
}

func (l *loadedGate) load() orca.Report { return l.Load(l.now) }

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= want*tolerance }

func TestTheWeightOfALoadReportIsTheSpeedOfTheContainer(t *testing.T) {
	for _, c := range []struct {
		perSecond int
		took      time.Duration
	}{{10, 40 * time.Millisecond}, {100, 40 * time.Millisecond}, {200, 40 * time.Millisecond}, {200, 10 * time.Millisecond}, {50, 160 * time.Millisecond}} {
		l := newLoadedGate(t, 10, 100)
		l.load()
		l.serve(c.perSecond, c.took, 20*time.Second)
		r := l.load()
		if !near(r.RPS, float64(c.perSecond), 0.05) || !near(r.ApplicationUtilization, float64(c.perSecond)*c.took.Seconds()/10, 0.05) {
			t.Errorf("%d/s of %s: %+v", c.perSecond, c.took, r)
		}
		if weight := r.RPS / r.ApplicationUtilization; !near(weight, 10/c.took.Seconds(), 0.05) {
			t.Errorf("%d/s of %s: weight %g, want %g", c.perSecond, c.took, weight, 10/c.took.Seconds())
		}
	}
}

func TestTheFirstLoadReportHasTheRequestsInFlight(t *testing.T) {
	l := newLoadedGate(t, 4, 10)
	for range 6 {
		l.begin()
	}
	r := l.load()
	if r.ApplicationUtilization != 1 || r.RPS != 0 || r.Named[0] != (orca.Metric{Name: "queue_depth", Value: 2}) {
		t.Errorf("%+v", r)
	}
	l.now += int64(time.Hour)
	if r := l.load(); r.ApplicationUtilization != 1 || r.RPS != 0 {
		t.Errorf("an hour later: %+v", r)
	}
}

func TestLoadReportsCountErrorsAndTheWaitInTheQueue(t *testing.T) {
	l := newLoadedGate(t, 1, 1)
	l.load()
	first, second := l.begin(), l.begin()
	if third := l.begin(); third != nil {
		t.Fatal("the third request is not rejected")
	}
	l.now += int64(time.Second)
	first.Status = 500
	first.End(gate.Served)
	if o := second.queued(l.now); o != gate.Undecided || second.State() != StateConnecting {
		t.Fatalf("the second request: %s, %d", o, second.State())
	}
	second.Status = 200
	second.End(gate.Served)
	r := l.load()
	if !near(r.EPS, r.RPS*2/3, 0.05) {
		t.Errorf("%g of %g per second are errors, want two of three", r.EPS, r.RPS)
	}
	// The earlier wait has decayed a little.
	if wait := r.Named[1]; wait.Name != "queue_wait_seconds" || !near(wait.Value, 0.5, 0.11) {
		t.Errorf("%+v, want half a second", wait)
	}
}

func TestNoUtilizationIsReportedWithoutALimit(t *testing.T) {
	l := newLoadedGate(t, 0, 10)
	l.load()
	l.serve(100, 10*time.Millisecond, 10*time.Second)
	if r := l.load(); r.ApplicationUtilization != 0 || !near(r.RPS, 100, 0.05) {
		t.Errorf("%+v", r)
	}
}

func TestRequestsAreNotMeasuredBeforeTheFirstLoadReport(t *testing.T) {
	l := newLoadedGate(t, 1, 10)
	x := l.begin()
	if x.Arrived != 0 || x.Admitted != 0 {
		t.Errorf("%+v has timestamps", x.Record)
	}
	x.End(gate.Served)
	if l.Gate.load.metering() || l.Gate.load.sums != (loadSums{}) {
		t.Error("requests are measured")
	}
}
