package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/queuegate/queuegate/bench/internal/engine"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	engineDeadline    = time.Second // time to the first token
	engineCancel      = 0.1
	engineCancelAfter = time.Second // mean time until a client disconnects
	engineTimes       = 4           // duration of the load as a multiple of Options.Duration
	enginePeriod      = 50 * time.Millisecond
	// cancelGrace is the maximum time from a client's disconnect to the abort in the
	// engine.
	cancelGrace = 10 * time.Millisecond
	flightPoll  = 2 * time.Millisecond
)

// modelEngine is the default engine with a smaller cache, so that it completes a few tens
// of requests per second.
func modelEngine() engine.Config {
	c := engine.Default()
	c.Blocks, c.MaxModelLen, c.MaxSequences, c.MaxBatchedTokens = 1500, 4096, 128, 2048
	return c
}

// engineFront admits requests to the engine.
type engineFront struct {
	name    string
	central bool // a Scheduler
	// oracle returns the value of engine.Server.Oracle, with which the server itself
	// queues requests. nil = no oracle.
	oracle  func(engine.Config) engine.Lengths
	options func(capacity float64, best int) target.Options
}

var engineFronts = []engineFront{
	{name: "none", options: func(float64, int) target.Options { return target.Options{} }},
	{name: "best", options: func(capacity float64, best int) target.Options {
		// The queue is so short that the engine completes all requests of a full queue in
		// half of the deadline. The last of them thus waits for half of the deadline. The
		// other half remains for its first token.
		return target.Options{Limit: best, QueueCapacity: max(1, int(capacity*engineDeadline.Seconds()/2))}
	}},
	{name: "central", central: true},
	{name: "preset", options: func(float64, int) target.Options { return target.Options{Engine: true} }},
	{name: "oracle_of_state", oracle: func(c engine.Config) engine.Lengths { return c.ExpectedLengths }},
	{name: "oracle_of_lengths", oracle: func(engine.Config) engine.Lengths { return engine.TrueLengths }},
}

// engines returns the scenarios with the model of an inference engine behind the gate.
func engines() (all []Scenario) {
	for _, times := range []float64{1, 3, 10} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("engine-%g", times), Groups: []string{"engine"}, Extended: true,
			About: fmt.Sprintf("streaming completions at %g times the capacity of a modelled vLLM, %.0f %% of the clients disconnect; first token due within %v: without a limit, the best fixed limit, a central scheduler that scrapes every %v, PRESET=vllm, an oracle that knows the engine's state, and one that knows the lengths of the outputs too",
				times, 100*engineCancel, engineDeadline, enginePeriod),
			Needs: []string{target.Engine}, Times: engineTimes * float64(len(engineFronts)), Extra: time.Duration(len(engineFronts)) * 3 * time.Second,
			Run: func(r *Run) error { return runEngine(r, times) },
		})
	}
	return all
}

func runEngine(r *Run, times float64) error {
	config := modelEngine()
	capacity, err := config.Capacity()
	if err != nil {
		return err
	}
	best, err := config.BestLimit()
	if err != nil {
		return err
	}
	unloaded, err := config.UnloadedFirstToken(0.99)
	if err != nil {
		return err
	}
	r.figure("capacity", capacity, "/s", sample.Neither)
	r.figure("best_limit", float64(best), "", sample.Neither)
	goodput := map[string]float64{}
	for i := range engineFronts {
		f := &engineFronts[(i+r.round-1)%len(engineFronts)]
		e := &engineRun{Run: r, config: config, front: f, unloaded: unloaded, flight: f.options != nil && f.name == "preset"}
		if f.options != nil {
			e.options = f.options(capacity, best)
		}
		if goodput[f.name], err = e.run(times * capacity); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, o := range engineFronts {
		for _, f := range engineFronts {
			if o.oracle != nil && goodput[o.name] > 0 && f.oracle == nil {
				r.figure("goodput_of_"+o.name+"_"+f.name, goodput[f.name]/goodput[o.name], "", sample.Higher)
			}
		}
	}
	return nil
}

// engineRun is one load on a new engine. One of engineFronts admits the requests.
type engineRun struct {
	*Run
	config   engine.Config
	front    *engineFront
	options  target.Options
	unloaded time.Duration // p99 of the time to the first token
	flight   bool          // compare the requests in flight at the gate and at the engine

	mu            sync.Mutex
	endedRequests map[string]*engine.Request
}

func (e *engineRun) run(rate float64) (goodput float64, err error) {
	server, err := engine.NewServer(e.config, uint64(e.round))
	if err != nil {
		return 0, err
	}
	e.endedRequests = map[string]*engine.Request{}
	if e.front.oracle != nil {
		server.Oracle = e.front.oracle(e.config)
	}
	server.OnEnd = func(id string, q *engine.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.endedRequests[id] = q
	}
	if err := server.Start("127.0.0.1:0"); err != nil {
		return 0, err
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			server.Stop()
		}
	}
	defer stop()
	url := "http://" + server.Address()
	compared := func() time.Duration { return 0 }
	switch {
	case e.front.central:
		s := &engine.Scheduler{Engine: url, Period: enginePeriod, MaxWaiting: 5, MaxKV: 0.8}
		if err := s.Start(); err != nil {
			return 0, err
		}
		defer s.Stop()
		url = s.URL()
	case e.front.oracle == nil:
		e.options.Origin, e.options.Cold = server.Port(), true
		i, err := e.target.Start(e.ctx, e.Run.options.Dir, e.options, 0)
		if err != nil {
			return 0, err
		}
		defer i.Stop()
		if err := awaitHealth(i.Port); err != nil {
			return 0, err
		}
		url = fmt.Sprintf("http://127.0.0.1:%d", i.Port)
		if e.flight {
			compared = compareFlight(i.PortOf("metrics"), server)
		}
	}
	w := engine.Workload{
		URL: url, Seed: uint64(e.round), Rate: rate, Duration: engineTimes * e.Run.options.Duration, Deadline: engineDeadline,
		Cancel: engineCancel, CancelAfter: engineCancelAfter, Prefix: e.front.name + "-",
	}
	responses, err := w.Run(e.ctx, 2*engineDeadline+time.Second)
	differed := compared()
	if err != nil {
		return 0, err
	}
	preemptions := server.Now().Preemptions
	stop() // so that the engine does not change the requests while record reads them
	return e.record(responses, preemptions, differed, w.Duration), nil
}

// record records the figures of the load and returns the goodput.
func (e *engineRun) record(responses []engine.Response, preemptions int64, differed, took time.Duration) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	inTime, rejected, numLate := 0, 0, 0
	var first []time.Duration
	for i := range responses {
		p := &responses[i]
		if p.InTime(engineDeadline) {
			inTime++
		}
		if p.Status != 0 && p.Status != http.StatusOK {
			rejected++
		}
		q := e.endedRequests[p.ID]
		if q == nil {
			continue
		}
		if q.First > 0 {
			first = append(first, q.First-q.Arrived)
		}
		if p.Cancelled > 0 {
			for _, step := range q.Steps {
				if step > p.Cancelled+cancelGrace {
					numLate++
				}
			}
		}
	}
	goodput := float64(inTime) / took.Seconds()
	name := func(figure string) string { return figure + "_" + e.front.name }
	e.figure(name("goodput"), goodput, "/s", sample.Higher)
	e.figure(name("preemptions"), float64(preemptions), "", sample.Lower)
	e.figure(name("first_token_p99_beside_unloaded"), engine.Quantile(first, 0.99).Seconds()/e.unloaded.Seconds(), "", sample.Lower)
	e.figure(name("steps_after_cancel"), float64(numLate), "", sample.Lower)
	e.figure(name("rejected_share"), float64(rejected)/max(1, float64(len(responses))), "", sample.Neither)
	if e.flight {
		e.figure("in_flight_differed", float64(differed)/1e6, "ms", sample.Lower)
	}
	return goodput
}

// awaitHealth waits until the engine responds through the proxy on port.
func awaitHealth(port int) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		status, err := target.Ask(port, "/health", time.Second)
		if err == nil && status == http.StatusOK {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no 200 from the engine: status %d, %v", status, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// compareFlight polls the number of requests in flight on the metrics page of the gate.
// The gate's number is wrong if it is outside the range of the engine's numbers during
// the poll. The function stop ends the polls, and returns the longest time during which
// consecutive polls found a wrong number.
func compareFlight(port int, server *engine.Server) (stop func() time.Duration) {
	var longest time.Duration
	seen := &flightRange{}
	server.OnFlux(seen.add)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var wrongSince time.Time
		for {
			select {
			case <-stopped:
				return
			case <-time.After(flightPoll):
			}
			seen.restart()
			gate, err := inFlight(port)
			now := time.Now()
			if err != nil || seen.contains(gate) {
				wrongSince = time.Time{}
				continue
			}
			if wrongSince.IsZero() {
				wrongSince = now
			}
			longest = max(longest, now.Sub(wrongSince))
		}
	}()
	return func() time.Duration {
		close(stopped)
		<-done
		return longest
	}
}

// flightRange holds the least and the greatest number of requests in flight in an engine
// since the latest call of restart, including the number at that call. It is safe for
// concurrent use.
type flightRange struct {
	mu                       sync.Mutex
	current, least, greatest int
}

func (r *flightRange) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.least, r.greatest = n, min(r.least, n), max(r.greatest, n)
}

func (r *flightRange) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.least, r.greatest = r.current, r.current
}

func (r *flightRange) contains(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.least <= n && n <= r.greatest
}

// inFlight reads the number of requests in flight from a gate's metrics page.
func inFlight(port int) (int, error) {
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics?name[]=queuegate_in_flight_requests", port))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "queuegate_in_flight_requests "); found {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("the page has no queuegate_in_flight_requests")
}
