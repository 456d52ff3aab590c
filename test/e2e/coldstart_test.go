package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Range of the random time until a container listens. The distribution is log-uniform.
const (
	shortestStart = 50 * time.Millisecond
	longestStart  = 5 * time.Second
	// coldStartsAtOnce limits concurrent cold starts.
	coldStartsAtOnce = 4
)

// coldStarts returns the number of cold starts of each kind, QUEUEGATE_COLD_STARTS or 8.
func coldStarts(t *testing.T) int {
	t.Helper()
	text := os.Getenv("QUEUEGATE_COLD_STARTS")
	if text == "" {
		return 8
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("QUEUEGATE_COLD_STARTS=%s: want a number", text)
	}
	return n
}

// coldStart is one start of a gate and a container.
type coldStart struct {
	kind    string        // key of coldStartKinds
	startup time.Duration // time from the request to the container's listen(2)
	// The following fields are results.
	delay    time.Duration // time from the container's listen(2) to the response to the waiting request
	cpu      time.Duration // CPU time of the gate while the request waited for its response
	attempts int           // checks, including refused ones
	reached  int           // checks that the container accepted
	polled   polled        // results of the poller; zero if the kind is "first request"
}

// coldStartKinds maps the name of each kind to two values. The first value is the gate's
// readiness probe. The second value is the header fields of the request that waits until
// the container listens. A request with the fields of the activator is a probe, to which
// the gate responds itself. Any other request is forwarded to the container.
var coldStartKinds = map[string]struct {
	probe  string
	fields []string
}{
	"tcpSocket":     {adaptiveTCP, activator},
	"httpGet":       {adaptiveHTTP, activator},
	"first request": {adaptiveTCP, nil},
}

// The test measures how soon the gate notices that a container listens, and compares the
// time with that of a poller. It fails only if a response is missing.
func TestColdStartsAreNoticedAndMeasured(t *testing.T) {
	t.Parallel()
	seeded := rand.New(rand.NewPCG(3, 1))
	var all []*coldStart
	for range coldStarts(t) {
		for _, kind := range []string{"tcpSocket", "httpGet", "first request"} {
			all = append(all, &coldStart{kind: kind, startup: logUniform(seeded)})
		}
	}
	next := make(chan *coldStart)
	var workers sync.WaitGroup
	for range coldStartsAtOnce {
		workers.Go(func() {
			for s := range next {
				t.Run(fmt.Sprintf("%s after %v", s.kind, s.startup.Round(time.Millisecond)), s.run)
			}
		})
	}
	for _, s := range all {
		next <- s
	}
	close(next)
	workers.Wait()
	report(t, all)
}

func logUniform(r *rand.Rand) time.Duration {
	span := math.Log(float64(longestStart) / float64(shortestStart))
	return time.Duration(float64(shortestStart) * math.Exp(r.Float64()*span))
}

func (s *coldStart) run(t *testing.T) {
	kind := coldStartKinds[s.kind]
	a := newApp(t)
	g := startGateFor(t, a, kind.probe, "UPSTREAM_WAIT=60s", "READINESS_WAIT=60s")
	c := dial(t, g)
	used := g.cpuTime()
	c.send(request("GET", "/first", kind.fields...))

	poll := func() polled { return polled{} }
	if kind.fields != nil {
		b := newApp(t)
		poll = startPoller(t, s.kind, b, s.startup)
	}
	<-time.After(s.startup)
	listening := a.listen(a.website)
	response := c.response("GET")
	s.delay = time.Since(listening)
	s.cpu = g.cpuTime() - used
	if kind.fields != nil {
		response.ready()
		eventually(t, "the log says that the container is ready", func() bool {
			s.attempts = 0
			last := change{}
			for _, last = range g.changes() {
				s.attempts += last.Attempts
			}
			return last.To == "ready" && a.count() > 0
		})
		s.reached = a.count()
	} else {
		response.is(200, "ok")
	}
	if s.delay > 10*time.Second {
		t.Errorf("the response arrived %v after the container listened", s.delay)
	}
	s.polled = poll()
}

// cpuTime reads schedstat, because the ticks of /proc/<pid>/stat are too coarse.
func (g *gate) cpuTime() time.Duration {
	g.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", g.Cmd.Process.Pid))
	must(g.t, err)
	var sum time.Duration
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		must(g.t, err)
		sum += time.Duration(ns)
	}
	return sum
}

// report prints the measurements.
func report(t *testing.T, all []*coldStart) {
	t.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	must(t, err)
	t.Logf("load average %s, %d concurrent cold starts", strings.Join(strings.Fields(string(load))[:3], " "), coldStartsAtOnce)
	for _, kind := range []string{"tcpSocket", "httpGet", "first request"} {
		var delays, polls, cpu, pollCPU []time.Duration
		var attempts, reached, polled []int
		for _, s := range all {
			if s.kind != kind {
				continue
			}
			delays, cpu = append(delays, s.delay), append(cpu, s.cpu)
			attempts, reached = append(attempts, s.attempts), append(reached, s.reached)
			polls, pollCPU = append(polls, s.polled.Delay), append(pollCPU, s.polled.CPU)
			polled = append(polled, s.polled.Probes)
		}
		if kind == "first request" {
			t.Logf("%s, %d starts: listen to response %s; CPU %s", kind, len(delays), spread(delays), spread(cpu))
			continue
		}
		t.Logf("%s, %d starts: listen to ready %s; CPU %s; probes %s, of them accepted %s",
			kind, len(delays), spread(delays), spread(cpu), spread(attempts), spread(reached))
		t.Logf("%s, poller every 50 ms:  listen to ready %s; CPU %s; probes %s",
			kind, spread(polls), spread(pollCPU), spread(polled))
	}
}

func spread[T int | time.Duration](all []T) string {
	sorted := slices.Sorted(slices.Values(all))
	quantile := func(q float64) T { return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)] }
	var sum T
	for _, x := range sorted {
		sum += x
	}
	if d, ok := any(sorted).([]time.Duration); ok {
		for i := range d {
			d[i] = d[i].Round(10 * time.Microsecond)
		}
		return fmt.Sprintf("median %v, p95 %v, max %v, mean %v", quantile(0.5), quantile(0.95), quantile(1),
			(time.Duration(sum) / time.Duration(len(d))).Round(10*time.Microsecond))
	}
	return fmt.Sprintf("median %v, p95 %v, mean %.1f", quantile(0.5), quantile(0.95), float64(sum)/float64(len(sorted)))
}

// polled is a poller's result for one cold start.
type polled struct {
	Ready  int64 // wall-clock time of the first success, in nanoseconds
	Delay  time.Duration
	CPU    time.Duration // CPU time until the first success
	Probes int
}

const pollerVariable = "QUEUEGATE_E2E_POLLER"

// startPoller starts a poller of the application b in a separate process. The application
// begins to listen after the duration startup. The returned function waits for the result
// of the poller.
func startPoller(t *testing.T, kind string, b *app, startup time.Duration) func() polled {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	p := startProcess(t, []string{pollerVariable + "=" + fmt.Sprintf("%s 127.0.0.1:%d", kind, b.port)}, self)
	eventually(t, "the poller polls", func() bool { return p.Stdout.String() != "" })
	listening := make(chan time.Time, 1)
	timer := time.AfterFunc(startup, func() { listening <- b.listen(b.website) })
	t.Cleanup(func() { timer.Stop() })
	return func() (r polled) {
		if code := p.exitCode(); code != 0 {
			t.Fatalf("the poller ended with code %d; stderr:\n%s", code, p.Stderr.String())
		}
		_, last, _ := strings.Cut(p.Stdout.String(), "\n")
		must(t, json.Unmarshal([]byte(last), &r))
		r.Delay = time.Unix(0, r.Ready).Sub(<-listening)
		return r
	}
}

// init runs the poller in the process that startPoller started.
func init() {
	if poller := os.Getenv(pollerVariable); poller != "" {
		kind, address, _ := strings.Cut(poller, " ")
		poll(kind, address)
		os.Exit(0)
	}
}

// poll probes every 50 ms, with a timeout of 100 ms, until a probe succeeds.
func poll(kind, address string) {
	const interval, timeout = 50 * time.Millisecond, 100 * time.Millisecond
	client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	probe := func() bool {
		r, err := client.Get("http://" + address + "/ready")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode < 400
	}
	if kind == "tcpSocket" {
		probe = func() bool {
			c, err := net.DialTimeout("tcp", address, timeout)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}
	}
	fmt.Println("polling")
	before := ownCPU()
	tick := time.NewTicker(interval)
	r := polled{Probes: 1}
	for ; !probe(); <-tick.C {
		r.Probes++
	}
	r.Ready = time.Now().UnixNano()
	r.CPU = ownCPU() - before
	out, _ := json.Marshal(r)
	fmt.Println(string(out))
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
