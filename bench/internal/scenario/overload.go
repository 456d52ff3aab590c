package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	overLimit  = 8
	overQueue  = 10 * overLimit
	overDelay  = 10 * time.Millisecond // time that the container needs for a request
	overConns  = 400
	overFactor = 2
	// overPerSecd is the number of requests per second that the container can serve:
	// overLimit requests at a time, each for overDelay, which is 0.010 s.
	overPerSecd = float64(overLimit) / 0.010
)

// overload sends twice as many requests as the container can serve.
var overload = Scenario{
	Name: "overload",
	About: fmt.Sprintf("open loop at %d times the capacity of %.0f/s (limit %d, %v each, queue %d): goodput, fairness, rejections",
		overFactor, overPerSecd, overLimit, overDelay, overQueue),
	Groups:      []string{"queue"},
	Needs:       []string{target.Limit, target.HTTP},
	Connections: overConns,
	Extra:       time.Second,
	Options:     target.Options{Limit: overLimit, QueueCapacity: overQueue},
	Measure:     runOverload,
}

func runOverload(r *Run, st *stand, _ load.Spec) error {
	// Use observe instead of measure, because rejections are expected.
	m, err := r.observe(st, load.Spec{
		Kind: load.HTTP, Path: "/?delay=" + overDelay.String(), Connections: overConns,
		Rate: overFactor * overPerSecd, Overtaking: overDelay,
	})
	if err != nil {
		return err
	}
	if r.saturated(m, true) {
		return nil
	}
	if m.Requests == 0 {
		return errors.New("no request succeeded: " + failures(m.Result))
	}
	r.goodput(m, overPerSecd)
	r.figure("rejected_share", m.failedShare(), "", sample.Neither)
	r.figure("overtaken_share", float64(m.Overtaken)/float64(m.Requests), "", sample.Lower)
	r.figure("cpu_per_request", m.microseconds(), "us", sample.Lower)
	if m.Failures() > 0 {
		r.note("rejected with: %s", failures(m.Result))
	} else {
		r.note("nothing was rejected: all excess requests were queued, so latency grows with the length of the run")
	}
	r.latency(m.Result)
	return nil
}

// goodput records the number of requests per second that succeeded within the planned
// duration of the load. It also records which share of the given capacity this is.
func (r *Run) goodput(m *measured, capacity float64) {
	rate := float64(m.Window) / r.options.Duration.Seconds()
	r.figure("goodput", rate, "/s", sample.Higher)
	r.figure("goodput_of_capacity", rate/capacity, "", sample.Higher)
}

const (
	fairLimit = 32
	fairDelay = 20 * time.Millisecond
	fairRate  = fairLimit * float64(time.Second) / float64(fairDelay) // capacity of the container in requests per second
	fairConns = 400
	// fairPhases is the number of phases in which the client is alone. There are as many
	// phases with the flood.
	fairPhases = 5
)

// fairness measures a client while another client floods the target with ten times the
// container's capacity. Phases with and without the flood alternate, so that slow changes
// of the machine affect both kinds of phases alike.
//
// The service times of the requests vary by up to 50 %, so that slots become free one by
// one. With equal service times, all requests in progress would end at the same time, and
// all slots would become free together.
func fairness() []Scenario {
	one := func(name, description string, rate float64, options target.Options, quiet, flood string) Scenario {
		options.Limit, options.QueueCapacity = fairLimit, 10*fairLimit
		return Scenario{
			Name: name, Groups: []string{"fairness"}, Extended: true,
			About: fmt.Sprintf("open loop, %s alone and beside a flood of 10 times the capacity of %.0f/s (limit %d, %v ± 50 %% each), alternating, %d times each",
				description, fairRate, fairLimit, fairDelay, fairPhases),
			Needs: []string{target.Fairness, target.HTTP}, Connections: 2 * fairConns, Times: 2 * fairPhases, Extra: fairPhases * 2 * time.Second,
			Options: options, Measure: func(r *Run, st *stand, _ load.Spec) error { return runFairness(r, st, rate, quiet, flood) },
		}
	}
	return []Scenario{
		one("tenant-fair", "a tenant at a tenth of its share", fairRate/2/10, target.Options{FairBy: "X-Tenant"}, "X-Tenant: quiet", "X-Tenant: flood"),
		one("tenant-fifo", "a tenant at a tenth of its share, strict FIFO,", fairRate/2/10, target.Options{}, "X-Tenant: quiet", "X-Tenant: flood"),
		one("class-first", "the highest class at half the capacity", fairRate/2, target.Options{PriorityBy: "Priority"}, "Priority: 0", "Priority: 7"),
	}
}

func runFairness(r *Run, st *stand, rate float64, quiet, flood string) error {
	path := fmt.Sprintf("/?delay=%v&spread=0.5", fairDelay)
	spec := load.Spec{Kind: load.HTTP, Path: path, Connections: fairConns, Rate: rate, Field: quiet}
	machine := meter{}
	busy, begin := machine.busy(), time.Now()
	var ratios, quiets, floods []float64
	var failed, all int64
	var latest *load.Result
	for range fairPhases {
		alone, err := r.observe(st, spec)
		if err != nil {
			return err
		}
		beside, err := r.besideFlood(st, spec, flood)
		if err != nil {
			return err
		}
		if p := alone.Quantile(99); p > 0 {
			quiets, floods = append(quiets, p), append(floods, beside.Quantile(99))
			ratios = append(ratios, beside.Quantile(99)/p)
		}
		failed += beside.Failures()
		all += beside.Requests + beside.Failures()
		latest = beside.Result
	}
	if len(ratios) > 0 {
		r.figure("p99_beside_alone", sample.Median(ratios), "", sample.Lower)
		r.figure("p99_alone", sample.Median(quiets)/1e3, "us", sample.Lower)
		r.figure("p99_flood", sample.Median(floods)/1e3, "us", sample.Lower)
	}
	r.figure("rejected_share", float64(failed)/max(1, float64(all)), "", sample.Lower)
	r.figure("machine_busy", float64(machine.busy()-busy)/float64(time.Since(begin)), "cores", sample.Neither)
	r.latency(latest)
	return machine.err
}

// besideFlood measures the load spec while a second load floods the target. The argument
// flood is a header field of all requests of the second load.
func (r *Run) besideFlood(st *stand, spec load.Spec, flood string) (*measured, error) {
	other, err := load.Start(r.ctx, load.Spec{
		Kind: load.HTTP, Path: spec.Path, Connections: fairConns, Rate: 10 * fairRate, Field: flood, Port: st.instance.Port,
		Warmup: 500 * time.Millisecond, Duration: 3*r.options.Duration + 2*time.Second,
	})
	if err != nil {
		return nil, err
	}
	defer other.Stop()
	flooding := make(chan error, 1)
	go func() {
		_, err := other.Run()
		flooding <- err
	}()
	r.pause(500 * time.Millisecond)
	beside, err := r.observe(st, spec)
	if err != nil {
		return nil, err
	}
	select {
	case err := <-flooding:
		return nil, fmt.Errorf("the flood ended first: %v", err)
	default:
	}
	return beside, nil
}

const (
	costConns = 64
	// costPairs is the number of pairs of measurements, one with and one without the
	// overload settings, in alternating order.
	costPairs = 7
)

// overloadCost measures the cost of the overload settings for a request that is not
// queued. An instance with all settings and an instance without them get the same load
// alternately.
var overloadCost = Scenario{
	Name:        "overload-cost",
	About:       "closed loop, keep-alive GET, 64 connections: CPU per request with an adaptive limit, fair queueing by a field and priority, and with none of them, alternating",
	Groups:      []string{"fairness"},
	Extended:    true,
	Needs:       []string{target.AutoLimit, target.Fairness, target.HTTP, target.Many},
	Connections: 2 * costConns,
	Times:       2 * costPairs,
	Extra:       2 * costPairs * 300 * time.Millisecond,
	Run:         runOverloadCost,
}

func runOverloadCost(r *Run) error {
	// The adaptive limit is at least costConns, the number of connections, so no request
	// is queued. Queueing costs additional CPU time with any settings, so it would hide
	// the cost of the settings for a request that is not queued.
	all := target.Options{AutoLimit: true, AutoLeast: costConns, FairBy: "X-Tenant", PriorityBy: "Priority", QueueCapacity: costConns}
	spec := load.Spec{Kind: load.HTTP, Path: "/", Connections: costConns, Field: "X-Tenant: one\r\nPriority: u=1"}
	return r.withStand(target.Options{}, func(disabled *stand) error {
		return r.withStand(all, func(enabled *stand) error {
			var without, with, ratios []float64
			for i := range costPairs {
				var pair [2]float64
				for k := range 2 {
					which := (i + k) % 2
					m, err := r.measure([]*stand{disabled, enabled}[which], spec)
					if err != nil {
						return err
					}
					pair[which] = m.microseconds()
				}
				without, with = append(without, pair[0]), append(with, pair[1])
				ratios = append(ratios, pair[1]/pair[0])
			}
			r.figure("cpu_per_request_off", sample.Median(without), "us", sample.Lower)
			r.figure("cpu_per_request_on", sample.Median(with), "us", sample.Lower)
			r.figure("on_beside_off", sample.Median(ratios), "", sample.Lower)
			return nil
		})
	})
}
