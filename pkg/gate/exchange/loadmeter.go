package exchange

import (
	"math"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// loadAverage is the time constant of the moving averages in load reports. Balancers use
// only the latest report, about once per second, so each report must be smooth.
const loadAverage = 5 * time.Second

// loadMeter measures the load for load reports. It starts with the first requested
// report.
//
// A balancer (weighted_round_robin of gRPC and Envoy) computes the weight of an endpoint
// from its report:
//
//	weight      = requests per second ÷ utilization
//	utilization = requests in flight ÷ concurrency limit
//
// The meter averages both over the same time. The number of requests in flight is then
// the requests per second × the time of a request (Little's law). So the weight is the
// concurrency limit ÷ the time of a request. The weight does not depend on the share of
// the traffic that the endpoint gets:
//
//	limit  in flight  time of a request  requests/s  utilization  weight
//	10     4.0        40 ms              100         0.4          250 = 10 ÷ 40 ms
//	10     1.0        10 ms              100         0.1          1000 = 10 ÷ 10 ms
//	10     10.0       40 ms              250         1.0          250, even if saturated
type loadMeter struct {
	gate   *Gate
	active atomic.Bool

	mu        sync.Mutex // guards the next fields
	updatedAt int64      // time of the last update of sums, in ns
	inFlight  int        // requests in flight at the last update
	sums      loadSums
}

// loadSums holds sums that decay by a factor of e per loadAverage. The measured time is
// one of them. So another sum divided by the measured time is an average over that time,
// even if the meter has run for less than loadAverage.
type loadSums struct {
	time     float64 // measured time in seconds
	inFlight float64 // sum of requests in flight × time, in request-seconds
	ended    float64 // requests that ended
	failed   float64 // requests that ended as errors
	admitted float64 // requests that got a slot
	waited   float64 // seconds that the admitted requests have waited for their slots
}

// advance lets the sums decay for the elapsed time, and then adds that time to them. The
// parameter inFlight is the number of requests in flight during that time.
func (s *loadSums) advance(elapsed time.Duration, inFlight int) {
	if elapsed <= 0 {
		return
	}
	keep := math.Exp(-float64(elapsed) / float64(loadAverage))
	spent := loadAverage.Seconds() * (1 - keep)
	*s = loadSums{
		time: s.time*keep + spent, inFlight: s.inFlight*keep + spent*float64(inFlight),
		ended: s.ended * keep, failed: s.failed * keep, admitted: s.admitted * keep, waited: s.waited * keep,
	}
}

// metering reports whether requests are measured. m may be nil.
func (m *loadMeter) metering() bool { return m != nil && m.active.Load() }

// start begins to measure, unless it has already begun.
func (m *loadMeter) start(now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.active.Load() {
		m.updatedAt, m.inFlight = now, m.gate.Admission.InFlight()
		m.active.Store(true)
	}
}

// update brings the sums up to date, and reads the number of requests in flight for the
// next update. The caller holds mu.
func (m *loadMeter) update(now int64) {
	m.sums.advance(time.Duration(now-m.updatedAt), m.inFlight)
	m.updatedAt, m.inFlight = max(m.updatedAt, now), m.gate.Admission.InFlight()
}

// moved records that a slot was taken or released.
func (m *loadMeter) moved(now int64) {
	m.mu.Lock()
	m.update(now)
	m.mu.Unlock()
}

func (m *loadMeter) requestEnded(r *gate.Record, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.update(int64(r.Ended))
	m.sums.ended++
	if failed {
		m.sums.failed++
	}
	if r.Admitted != 0 {
		m.sums.admitted++
		m.sums.waited += max(0, r.Admitted-r.Arrived).Seconds()
	}
}

func (m *loadMeter) report(now int64) orca.Report {
	m.start(now)
	m.mu.Lock()
	m.update(now)
	sums, inFlight := m.sums, float64(m.inFlight)
	m.mu.Unlock()
	var r orca.Report
	if sums.time > 0 {
		inFlight = sums.inFlight / sums.time
		r.RPS, r.EPS = rounded(sums.ended/sums.time), rounded(sums.failed/sums.time)
	}
	if limit := m.gate.Admission.Limit(); limit > 0 {
		r.ApplicationUtilization = rounded(inFlight / float64(limit))
	}
	wait := 0.0
	if sums.admitted > 0 {
		wait = sums.waited / sums.admitted
	}
	r.Named = []orca.Metric{
		{Name: "queue_depth", Value: float64(m.gate.Admission.QueueDepth())},
		{Name: "queue_wait_seconds", Value: rounded(wait)},
	}
	return r
}

func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }
