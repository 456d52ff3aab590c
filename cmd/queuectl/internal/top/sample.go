// Package top shows live figures of gates, from their metrics.
package top

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample holds the metrics of a gate at one time.
type Sample struct {
	Time        time.Time
	InFlight    float64
	Limit       float64 // +Inf is unlimited
	Queued      float64
	Capacity    float64
	Outcomes    map[string]float64     // finished requests by outcome
	Latency     map[float64]float64    // key = seconds; value = number of requests that reached the container and took at most that long
	Containers  map[string]string      // state by name
	Transitions map[transition]float64 // counts of state changes
	Version     string
	Draining    float64 // 1 = draining
	Started     float64 // Unix time of the gate's start; 0 = unknown
}

// transition is a change of a container's state, and its cause.
type transition struct{ container, state, cause string }

// Source is the location of a gate's metrics.
type Source struct {
	Name string
	// Reach returns the URL, which may change.
	Reach func(context.Context) (string, error)
	// Lost is called after a failed request; may be nil.
	Lost   func()
	Client *http.Client
}

// NewSource returns a source with a fixed URL.
func NewSource(name, url string) Source {
	return Source{Name: name, Reach: func(context.Context) (string, error) { return url, nil }, Client: &http.Client{}}
}

// Fetch reads a sample from the gate.
func (s *Source) Fetch(ctx context.Context) (*Sample, error) {
	url, err := s.Reach(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain")
	response, err := s.Client.Do(request)
	if err != nil {
		if s.Lost != nil {
			s.Lost()
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return read(io.LimitReader(response.Body, 16<<20), time.Now())
}

// read parses a page of metrics, with the current or the legacy names.
func read(page io.Reader, now time.Time) (*Sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, err
	}
	if families["queuegate_in_flight_requests"] == nil {
		return nil, fmt.Errorf("these are not the metrics of a gate")
	}
	s := &Sample{Time: now, Limit: math.Inf(1), Outcomes: map[string]float64{}, Latency: map[float64]float64{},
		Containers: map[string]string{}, Transitions: map[transition]float64{}}
	for name, to := range map[string]*float64{"queuegate_in_flight_requests": &s.InFlight, "queuegate_concurrency_limit": &s.Limit,
		"kn_serving_queue_depth": &s.Queued, "revision_queue_depth": &s.Queued, "queuegate_queue_capacity": &s.Capacity,
		"process_start_time_seconds": &s.Started, "queuegate_draining": &s.Draining} {
		for _, m := range families[name].GetMetric() {
			*to = value(m)
		}
	}
	for _, m := range families["queuegate_request_outcomes_total"].GetMetric() {
		s.Outcomes[label(m, "outcome")] = value(m)
	}
	for _, m := range families["queuegate_container_state"].GetMetric() {
		if value(m) == 1 {
			s.Containers[label(m, "container")] = label(m, "state")
		}
	}
	for _, m := range families["queuegate_container_transitions_total"].GetMetric() {
		s.Transitions[transition{label(m, "container"), label(m, "state"), label(m, "cause")}] = value(m)
	}
	for _, m := range families["queuegate_build_info"].GetMetric() {
		s.Version = label(m, "version")
	}
	s.readLatency(families)
	return s, nil
}

// readLatency computes the histogram of the requests that reached the container. It adds
// up the histograms of all requests except tunnels, and subtracts the histogram of the
// requests that did not reach the container. With the legacy metric names, the subtracted
// histogram has other bucket bounds than the sum. So readLatency keeps only the bounds
// that both have.
func (s *Sample) readLatency(families map[string]*dto.MetricFamily) {
	durations, perSecond, code := families["http_server_request_duration_seconds"], 1.0, "http_response_status_code"
	if durations == nil {
		durations, perSecond, code = families["revision_request_latencies"], 1000.0, "response_code"
	}
	for _, m := range durations.GetMetric() {
		if label(m, code) == "101" {
			continue
		}
		for _, b := range m.GetHistogram().GetBucket() {
			s.Latency[b.GetUpperBound()/perSecond] += float64(b.GetCumulativeCount())
		}
	}
	for _, m := range families["queuegate_unforwarded_duration_seconds"].GetMetric() {
		unforwarded := map[float64]float64{}
		for _, b := range m.GetHistogram().GetBucket() {
			unforwarded[b.GetUpperBound()] = float64(b.GetCumulativeCount())
		}
		for bound := range s.Latency {
			n, known := unforwarded[bound]
			if !known {
				delete(s.Latency, bound)
				continue
			}
			s.Latency[bound] -= n
		}
	}
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	}
	return m.GetUntyped().GetValue()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// windowSeconds is the period over which rates and latencies are computed.
const windowSeconds = 10

// historyLength is the number of samples kept for the chart.
const historyLength = 120

// Gate is a gate with its recent samples.
type Gate struct {
	Source
	Samples []*Sample // the last historyLength samples, oldest first
	Err     error     // error of the last attempt
	causes  map[string]string

	ctx    context.Context // ends when the gate is removed
	remove context.CancelFunc
}

// Add records a sample, or the error of the attempt.
func (g *Gate) Add(s *Sample, err error) {
	if g.Err = err; err != nil {
		return
	}
	if last := g.Last(); last != nil && (total(s.Outcomes) < total(last.Outcomes) || s.Started != last.Started) {
		g.Samples, g.causes = nil, nil // the gate has restarted
	}
	g.noteCauses(s)
	g.Samples = append(g.Samples, s)
	if len(g.Samples) > historyLength {
		g.Samples = g.Samples[1:]
	}
}

// Last returns the latest sample, or nil.
func (g *Gate) Last() *Sample {
	if len(g.Samples) == 0 {
		return nil
	}
	return g.Samples[len(g.Samples)-1]
}

// noteCauses determines the cause of each container's state. It uses the transitions that
// the gate has counted since the last sample. For the first sample, it uses all
// transitions since the gate's start.
func (g *Gate) noteCauses(s *Sample) {
	if g.causes == nil {
		g.causes = map[string]string{}
	}
	last := g.Last()
	seen := map[string][]string{}
	for t, n := range s.Transitions {
		if t.state != s.Containers[t.container] || t.cause == "" {
			continue
		}
		if last != nil {
			n -= last.Transitions[t]
		}
		if n > 0 {
			seen[t.container] = append(seen[t.container], t.cause)
		}
	}
	for container, state := range s.Containers {
		switch causes := seen[container]; {
		case len(causes) > 0:
			slices.Sort(causes)
			g.causes[container] = strings.Join(causes, "/")
		case last == nil || last.Containers[container] != state:
			delete(g.causes, container)
		}
	}
}

// IsPending reports whether the first sample is pending.
func (g *Gate) IsPending() bool { return g.Last() == nil && g.Err == nil }

// Readiness returns the state of the gate, with causes for containers that are not
// ready.
func (g *Gate) Readiness() (ready bool, text string) {
	s := g.Last()
	switch {
	case g.Err != nil && s == nil:
		return false, "no response"
	case g.Err != nil:
		return false, "no response since " + s.Time.Format(time.TimeOnly)
	case s == nil:
		return false, "…"
	case s.Draining == 1:
		return false, "draining"
	}
	var not []string
	for _, container := range slices.Sorted(maps.Keys(s.Containers)) {
		if state := s.Containers[container]; state != "ready" {
			text := container + " " + state
			if cause := g.causes[container]; cause != "" {
				text += " (" + cause + ")"
			}
			not = append(not, text)
		}
	}
	if not != nil {
		return false, strings.Join(not, ", ")
	}
	return true, "ready"
}

// Rates are computed over the last windowSeconds.
type Rates struct {
	Requests, Rejected, Failed float64 // per second
	P50, P99                   float64 // seconds; NaN without a request
	Outcomes                   map[string]float64
}

// classesJSON contains the class of each outcome. A test of pkg/gate compares the file
// with the code. With -update, that test writes the file. This module does not import
// pkg/gate, because it would need a replace directive, and `go install` rejects a module
// that has one.
//
//go:embed classes.json
var classesJSON []byte

// classes maps outcomes to classes. Unknown outcomes count as failed.
var classes = func() (all map[string]string) {
	if err := json.Unmarshal(classesJSON, &all); err != nil {
		panic("BUG: classes.json: " + err.Error())
	}
	return all
}()

// Rates computes rates from the difference between the last sample and an earlier one.
// The two samples must be more than windowSeconds apart. If several earlier samples meet
// this condition, Rates uses the newest of them. If none does, it uses the oldest sample.
func (g *Gate) Rates() Rates {
	r := Rates{P50: math.NaN(), P99: math.NaN(), Outcomes: map[string]float64{}}
	last := g.Last()
	if g.Err != nil || last == nil || len(g.Samples) < 2 {
		return r
	}
	first := g.Samples[0]
	for _, s := range g.Samples {
		if last.Time.Sub(s.Time) <= windowSeconds*time.Second {
			break
		}
		first = s
	}
	took := last.Time.Sub(first.Time).Seconds()
	for outcome, n := range last.Outcomes {
		perSecond := (n - first.Outcomes[outcome]) / took
		if perSecond <= 0 {
			continue
		}
		r.Outcomes[outcome] = perSecond
		r.Requests += perSecond
		switch class, known := classes[outcome]; {
		case class == "refused":
			r.Rejected += perSecond
		case class == "failed" || !known:
			r.Failed += perSecond
		}
	}
	buckets := map[float64]float64{}
	for bound, n := range last.Latency {
		buckets[bound] = n - first.Latency[bound]
	}
	r.P50, r.P99 = quantile(buckets, 0.5), quantile(buckets, 0.99)
	return r
}

// quantile returns a quantile of a histogram, linearly interpolated within a
// bucket.
func quantile(buckets map[float64]float64, q float64) float64 {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) == 0 || buckets[bounds[len(bounds)-1]] <= 0 {
		return math.NaN()
	}
	rank := q * buckets[bounds[len(bounds)-1]]
	below, from := 0.0, 0.0
	for _, bound := range bounds {
		if n := buckets[bound]; n >= rank && n > below {
			if math.IsInf(bound, 1) {
				return from
			}
			return from + (bound-from)*(rank-below)/(n-below)
		}
		below, from = buckets[bound], bound
	}
	return from
}

func total(counts map[string]float64) (sum float64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
