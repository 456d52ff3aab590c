package otel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// cellVariable is an environment variable that contains a spec in JSON. With it, the
// test binary runs the cell of this spec instead of the tests. The tests start the
// binary with this variable in a new network namespace.
const cellVariable = "OTEL_TEST_CELL"

// failsafe limits every wait. It only ends tests that would hang.
const failsafe = 2 * time.Minute

// spec describes one experiment in a cell. The binary (queue-proxy or the gate) runs
// with the variables of Environment, and serves a number of requests. The experiment
// ends when the collector has received the expected messages, or with Drain when the
// process has exited.
type spec struct {
	Binary       string
	Certificates string
	Environment  []string
	Requests     int
	// Traces is the number of trace messages for which the cell waits. With -1 it waits
	// for the spans of all sampled requests instead.
	Traces  int
	Metrics int // number of metrics messages for which the cell waits
	// Drain ends the process with SIGTERM, so that it flushes traces and metrics. The
	// cell then does not wait for a number of messages.
	Drain       bool
	Page        bool // read target_info from the Prometheus page
	Propagation bool // record the trace context at the application
}

// observation is the result of a cell.
type observation struct {
	Fields map[string]string
	// WithoutParent is the number of requests that the client sent without a parent
	// span. Sampled is the number of these requests whose trace was sampled.
	Sampled, WithoutParent int
	Stderr                 string
}

func observe(t *testing.T, s spec) observation {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cell := exec.Command(os.Args[0])
	cell.Env = append(os.Environ(), cellVariable+"="+string(text))
	cell.Stdout, cell.Stderr = &out, &stderr
	cell.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cell.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cell.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	var o observation
	if err := cell.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", s.Binary, err, stderr.String())
	}
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatalf("%s: %v in %q\n%s", s.Binary, err, out.String(), stderr.String())
	}
	return o
}

// cell is a network namespace with the collector, the application, the process and a
// client.
type cell struct {
	spec
	*collector
	process *launch.Process

	mu     sync.Mutex
	atHome map[string]http.Header // received by the application, by path
}

func runCell(text string) error {
	c := &cell{atHome: map[string]http.Header{}}
	err := json.Unmarshal([]byte(text), &c.spec)
	if err == nil {
		err = startLoopback()
	}
	if err == nil {
		c.collector, err = startCollector(c.Certificates)
	}
	if err != nil {
		return err
	}
	application := &http.Server{Addr: "127.0.0.1:8080", Handler: c}
	go application.ListenAndServe()
	cmd := exec.Command(c.Binary)
	cmd.Env = c.Environment
	if c.process, err = launch.Start(cmd); err != nil {
		return err
	}
	defer c.process.Kill()
	o, err := c.observe()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.process.Stderr.String())
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// startLoopback brings up the loopback interface of a new namespace.
func startLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return errors.Join(unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up), unix.Close(s))
}

// ServeHTTP is the application's handler.
func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atHome[r.URL.Path] = r.Header
}

// Default ports of both queue-proxy and the gate.
const (
	serving = "http://127.0.0.1:8012"
	page    = "http://127.0.0.1:9091/metrics"
)

func (c *cell) observe() (*observation, error) {
	o := &observation{Fields: map[string]string{}}
	if !c.starts() {
		o.Fields["start"] = "fails"
		o.Stderr = c.process.Stderr.String()
		return o, nil
	}
	o.Fields["start"] = "succeeds"
	l := &load{cell: c, workers: 8}
	if err := l.run(); err != nil {
		return nil, err
	}
	if c.Propagation {
		if err := c.propagate(o); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Drain:
		if err := c.process.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return nil, err
		}
		if !c.process.EndsIn(failsafe) {
			return nil, errors.New("it does not end after SIGTERM")
		}
	default:
		for signal, want := range map[string]int{"traces": c.Traces, "metrics": c.Metrics} {
			for deadline := time.Now().Add(failsafe); c.total(signal) < want; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					return nil, fmt.Errorf("%d messages with %s have arrived, want %d", c.total(signal), signal, want)
				}
			}
		}
	}
	if c.Page {
		if err := c.readPage(o); err != nil {
			return nil, err
		}
	}
	c.collector.describe(o)
	l.describe(o)
	o.Stderr = c.process.Stderr.String()
	return o, nil
}

// starts waits until the process is ready. It returns false if the process exits first,
// or is not ready within the duration failsafe. The User-Agent of a probe is that of
// Knative's activator. With any other User-Agent, queue-proxy would forward the probe to
// the application, and trace it.
func (c *cell) starts() bool {
	client := &http.Client{Timeout: failsafe}
	for deadline := time.Now().Add(failsafe); c.process.Running() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		request, _ := http.NewRequest(http.MethodGet, serving, nil)
		request.Header.Set("K-Network-Probe", "queue")
		request.Header.Set("User-Agent", "Knative-Activator-Probe")
		response, err := client.Do(request)
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return true
		}
	}
	return false
}

var targetInfo = regexp.MustCompile(`(?m)^target_info\{(.*)\} 1$`)

var label = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)",?`)

func (c *cell) readPage(o *observation) error {
	response, err := http.Get(page)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	info := targetInfo.FindSubmatch(text)
	if info == nil {
		return fmt.Errorf("no target_info in\n%s", text)
	}
	labels := map[string]string{}
	for _, l := range label.FindAllSubmatch(info[1], -1) {
		switch name := string(l[1]); {
		case strings.HasPrefix(name, "telemetry_sdk_"): // a documented difference: the gate has no SDK
		case name == "service_version":
			labels[name] = "(version)"
		default:
			labels[name] = string(l[2])
		}
	}
	o.Fields["target_info"] = sorted(labels)
	return nil
}

// Trace contexts of propagate.
const (
	sentTrace = "0af7651916cd43dd8448eb211c80319c"
	sentSpan  = "b7ad6b7169203331"
)

// propagate sends a request for each format of trace context, and records what the
// application receives.
func (c *cell) propagate(o *observation) error {
	for name, fields := range map[string]map[string]string{
		"traceparent": {"Traceparent": "00-" + sentTrace + "-" + sentSpan + "-01", "Tracestate": "vendor=1"},
		"b3":          {"B3": sentTrace + "-" + sentSpan + "-1"},
		"b3multi":     {"X-B3-Traceid": sentTrace, "X-B3-Spanid": sentSpan, "X-B3-Sampled": "1"},
		"baggage":     {"Traceparent": "00-" + sentTrace + "-" + sentSpan + "-01", "Baggage": "user=1"},
		"nothing":     {},
	} {
		path := "/propagation/" + name
		request, _ := http.NewRequest(http.MethodGet, serving+path, nil)
		for key, value := range fields {
			request.Header.Set(key, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		c.mu.Lock()
		at := c.atHome[path]
		c.mu.Unlock()
		got := map[string]string{}
		for _, key := range []string{"Traceparent", "Tracestate", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Sampled", "Baggage"} {
			value := at.Get(key)
			switch {
			case value == "":
				continue
			case value == fields[key]:
				value = "unchanged"
			default:
				value = strings.ReplaceAll(strings.ReplaceAll(value, sentTrace, "TRACE"), sentSpan, "SPAN")
				value = hexadecimal.ReplaceAllString(value, "NEW")
			}
			got[key] = value
		}
		o.Fields["application gets "+name] = sorted(got)
	}
	return nil
}

var hexadecimal = regexp.MustCompile(`\b(?:[0-9a-f]{32}|[0-9a-f]{16})\b`)

// load sends requests: two fifths without a parent, two fifths with an unsampled parent,
// and one fifth with a sampled one. All cells send the same trace ids.
type load struct {
	*cell
	workers  int
	sent     map[string]bool // key: trace id; value: whether the parent is sampled
	expected int             // number of requests without a parent
}

// The spans of perRound requests fit into the span queues of queue-proxy and of the gate.
const perRound = 600

func (l *load) run() error {
	l.sent = map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	requests := make([]string, l.Requests) // values of traceparent
	for i := range requests {
		id := fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())
		switch i % 5 {
		case 0, 1:
			l.expected++
			continue
		case 2, 3:
			l.sent[id] = false
			requests[i] = "00-" + id + "-" + sentSpan + "-00"
		default:
			l.sent[id] = true
			requests[i] = "00-" + id + "-" + sentSpan + "-01"
		}
	}
	clients := make([]*http.Client, l.workers)
	for i := range clients {
		clients[i] = &http.Client{Transport: &http.Transport{}, Timeout: failsafe}
	}
	for round := 0; len(requests) > 0; round++ {
		n := min(perRound, len(requests))
		if err := l.round(round, requests[:n], clients); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

// sentinel returns a trace id that every sampler accepts, unless its ratio is 0.
func sentinel(round, worker int) string { return fmt.Sprintf("%08x%08x%016x", round+1, worker+1, 0) }

// round sends the requests of one round. Each worker sends its requests one after the
// other on one connection. The last request of a worker has a trace id that every
// sampler accepts.
//
// A negative l.Traces means that the test needs the spans of all sampled requests. In
// this case, round also waits for the span of each worker's last request. This span ends
// after the spans of the worker's other requests, so round need not wait for those.
func (l *load) round(round int, requests []string, clients []*http.Client) error {
	var all sync.WaitGroup
	failed := make([]error, l.workers)
	missing := map[string]bool{}
	for worker, client := range clients {
		last := sentinel(round, worker)
		missing[last] = true
		all.Go(func() {
			for i := worker; i < len(requests) && failed[worker] == nil; i += l.workers {
				failed[worker] = get(client, requests[i])
			}
			if failed[worker] == nil {
				failed[worker] = get(client, "00-"+last+"-"+sentSpan+"-01")
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil || l.Traces >= 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), failsafe)
	defer cancel()
	for len(missing) > 0 {
		select {
		case id := <-l.sampled:
			delete(missing, id)
		case <-ctx.Done():
			return errors.New("spans of sampled requests have not arrived: " + strings.Join(slices.Sorted(maps.Keys(missing)), " "))
		}
	}
	return nil
}

func get(client *http.Client, traceparent string) error {
	request, err := http.NewRequest(http.MethodGet, serving+"/load", nil)
	if err != nil {
		return err
	}
	if traceparent != "" {
		request.Header.Set("Traceparent", traceparent)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// printedSpan matches the trace id of a span that OpenTelemetry's SDK or the gate prints.
var printedSpan = regexp.MustCompile(`"(?:SpanContext":\{"TraceID|traceId)":"([0-9a-f]{32})"`)

// describe compares the sampled traces with the sent ones.
func (l *load) describe(o *observation) {
	if l.Traces >= 0 && !l.Drain {
		return // spans may be missing
	}
	l.collector.mu.Lock()
	defer l.collector.mu.Unlock()
	o.WithoutParent = l.expected
	ownTraces := map[string]bool{sentTrace: true}
	for round := range l.Requests/perRound + 1 {
		for worker := range l.workers {
			ownTraces[sentinel(round, worker)] = true
		}
	}
	sampled, ids := map[bool][]string{}, map[string]bool{}
	for id := range l.traces {
		ids[id] = true
	}
	for _, span := range printedSpan.FindAllStringSubmatch(l.process.Stdout.String(), -1) {
		ids[span[1]] = true
	}
	for id := range ids {
		if decision, ok := l.sent[id]; ok {
			sampled[decision] = append(sampled[decision], id)
		} else if !ownTraces[id] {
			o.Sampled++
		}
	}
	total := map[bool]int{}
	for _, decision := range l.sent {
		total[decision]++
	}
	for decision, name := range map[bool]string{false: "sampled of an unsampled parent", true: "sampled of a sampled parent"} {
		slices.Sort(sampled[decision])
		digest := sha256.Sum256([]byte(strings.Join(sampled[decision], " ")))
		o.Fields[name] = fmt.Sprintf("%d of %d, ids %x", len(sampled[decision]), total[decision], digest[:4])
	}
}

func (c *collector) describe(o *observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, signal := range []string{"traces", "metrics"} {
		var destinations, headers, encodings, clients, resources []string
		for a := range c.arrivals[signal] {
			destinations, headers, encodings = append(destinations, a.Destination), append(headers, a.Headers), append(encodings, a.Encoding)
			clients, resources = append(clients, a.Client), append(resources, a.Resource)
		}
		for name, values := range map[string][]string{
			"destination": destinations, "headers": headers, "compression": encodings, "client certificate": clients, "resource": resources,
		} {
			slices.Sort(values)
			o.Fields[signal+": "+name] = strings.Join(slices.Compact(values), " | ")
		}
		if wait := c.waits[signal]; wait != 0 {
			o.Fields[signal+": attempt given up"] = "after " + strconv.FormatInt(wait.Round(time.Second).Milliseconds()/1000, 10) + " s"
		}
	}
	o.Fields["metrics: instruments"] = strings.Join(slices.Sorted(maps.Keys(c.metrics)), "\n")
}

func sorted(pairs map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		fmt.Fprintf(&b, "%s=%q ", key, pairs[key])
	}
	return strings.TrimSpace(b.String())
}
