package load

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

const (
	connectTimeout = 30 * time.Second
	drainTimeout   = 10 * time.Second
	// dialsAtOnce is the maximum number of connections that a worker opens at the same
	// time. The value is below 511, a common listen backlog, so that the connection
	// attempts of a worker fit into it.
	dialsAtOnce = 256
	// failuresAllowed is the number of failed requests after which a load ends with an
	// error.
	failuresAllowed = 20_000
	longestWait     = 50 * time.Millisecond
)

// A protocol implements requests on connections. Its methods queue bytes, and the worker
// writes them.
type protocol interface {
	// open queues the first bytes of a new connection. It reports whether the connection
	// can carry requests at once. If not, the protocol calls worker.opened later.
	open(c *conn) bool
	// send queues a request. The latency of the request counts from the parameter due,
	// which is a reading of package clock.
	send(c *conn, due int64)
	// receive consumes bytes of p, and calls worker.finishRequest for each response. The
	// worker passes unconsumed bytes again together with the next ones.
	receive(c *conn, p []byte) (used int, err error)
	// lost handles the end of the connection. It calls worker.finishRequest for each request
	// in progress, and reports whether to open the connection again.
	lost(c *conn, cause error) (reconnect bool)
}

// A worker is a thread with an event loop and its share of the connections.
type worker struct {
	spec     *Spec
	protocol protocol
	poller   *socket.Poller
	conns    []*conn
	byFD     []*conn
	scratch  []byte
	dialing  int
	waiting  int // connections that are not open yet
	most     int // maximum number of requests in flight in a closed loop; 0 = as many as the connections can carry
	free     ring[*conn]
	backlog  ring[int64] // due times of requests that wait for a connection
	pace     pace
	sending  bool
	underWay int
	now      int64
	failures int
	broken   error
	tally    *tally
}

func newWorker(spec *Spec, index, numWorkers int) (*worker, error) {
	poller, err := socket.NewPoller()
	if err != nil {
		return nil, err
	}
	share := func(n int) int { return n*(index+1)/numWorkers - n*index/numWorkers }
	w := &worker{
		spec:    spec,
		poller:  poller,
		scratch: make([]byte, 256<<10),
		most:    share(spec.UnderWay),
		tally:   newTally(),
		pace:    pace{interval: float64(time.Second) * float64(numWorkers) / max(spec.Rate, 1e-9), offset: float64(index) / float64(numWorkers)},
	}
	switch spec.Kind {
	case WebSocket:
		w.protocol = newWebSocket(w)
	case Events:
		w.protocol = newEvents(w)
	case H2C, H2CStream:
		w.protocol = newH2(w)
	default:
		w.protocol = newHTTP1(w)
	}
	for range share(spec.Connections) {
		w.conns = append(w.conns, &conn{worker: w, fd: -1})
	}
	return w, nil
}

// serve connects and warms up, waits for begin, and measures. It runs on its own thread.
func (w *worker) serve(begin <-chan struct{}, done chan<- error) {
	runtime.LockOSThread()
	socket.SharpTimers()
	done <- w.prepare()
	<-begin
	done <- w.load(w.spec.Duration)
}

// prepare connects and warms up.
func (w *worker) prepare() error {
	if w.spec.NewConnections {
		for _, c := range w.conns {
			w.free.push(c)
		}
	} else if err := w.connect(); err != nil {
		return err
	}
	if w.spec.Kind == Idle {
		return w.touch()
	}
	if w.spec.Warmup > 0 {
		if err := w.load(w.spec.Warmup); err != nil {
			return err
		}
	}
	w.tally = newTally()
	if w.spec.Timeline {
		w.tally.Timeline = make([]int64, w.spec.Duration/TimelineStep)
	}
	return nil
}

// touch sends one request on each connection. Only a few requests are in flight at a
// time. So the memory of the target afterwards depends on the number of connections, and
// not on a peak of requests.
func (w *worker) touch() error {
	const atOnce = 16
	w.now = clock.Now()
	for _, c := range w.conns {
		if !w.iterateUntil(func() bool { return w.underWay < atOnce }, drainTimeout) {
			return fmt.Errorf("no responses within %v; %d are missing", drainTimeout, w.underWay)
		}
		if w.broken != nil {
			return w.broken
		}
		w.sendOn(c, w.now)
	}
	return w.awaitIdle("responses to the first request")
}

func (w *worker) connect() error {
	w.waiting = len(w.conns)
	undialed := w.conns
	open := w.iterateUntil(func() bool {
		for len(undialed) > 0 && w.dialing < dialsAtOnce && w.broken == nil {
			w.broken = undialed[0].dial()
			undialed = undialed[1:]
		}
		return w.waiting == 0
	}, connectTimeout)
	if !open {
		return fmt.Errorf("%d of %d connections did not open within %v", w.waiting, len(w.conns), connectTimeout)
	}
	return w.broken
}

// load sends requests for the duration d, and waits for the last responses.
func (w *worker) load(d time.Duration) error {
	cpu := threadCPU()
	w.now = clock.Now()
	begin, end := w.now, w.now+int64(d)
	w.tally.begin, w.tally.windowEnd, w.tally.last = begin, end, begin
	w.sending = true
	if w.spec.Rate > 0 {
		w.pace.begin, w.pace.count = begin, 0
	} else if w.spec.Kind != Events && w.spec.Kind != Idle {
		for range min(w.free.len(), cmp.Or(w.most, w.free.len())) {
			if c := w.take(); c != nil {
				w.sendOn(c, w.now)
			}
		}
	}
	for w.now < end && w.broken == nil {
		wait := min(longestWait, time.Duration(end-w.now))
		if w.spec.Rate > 0 {
			wait = min(wait, time.Duration(w.pace.next()-clock.Now()))
		}
		w.iterate(wait)
		if w.spec.Rate > 0 {
			w.arrive(end)
		}
	}
	if w.spec.Kind == Events {
		// On a busy machine the first event may arrive after the end of a short load.
		w.iterateUntil(func() bool { return w.tally.Requests > 0 }, drainTimeout)
	}
	w.sending = false
	err := w.awaitIdle("responses")
	w.tally.end = w.now
	w.tally.CPU = threadCPU() - cpu
	return err
}

// awaitIdle waits until no request is in progress and no due request waits for a
// connection. At the timeout it counts the remaining requests as unfinished. The timeout
// is an error only if no request was successful.
func (w *worker) awaitIdle(unit string) error {
	if !w.iterateUntil(func() bool { return w.underWay == 0 && w.backlog.len() == 0 }, drainTimeout) {
		w.tally.countUnfinished(w)
		if w.tally.Requests == 0 {
			return fmt.Errorf("no %s within %v; %d are missing", unit, drainTimeout, w.underWay)
		}
		return nil
	}
	return w.broken
}

// arrive sends all requests that are due.
func (w *worker) arrive(end int64) {
	w.now = clock.Now()
	for {
		due := w.pace.next()
		if due > w.now || due >= end {
			return
		}
		w.pace.count++
		c := w.take()
		if c == nil {
			w.backlog.push(due)
			continue
		}
		w.tally.recordLateness(w.now - due)
		w.sendOn(c, due)
	}
}

// take returns a connection that can carry another request, or nil.
func (w *worker) take() *conn {
	for w.free.len() > 0 {
		if c := w.free.pop(); !c.dead {
			return c
		}
	}
	return nil
}

func (w *worker) sendOn(c *conn, due int64) {
	w.underWay++
	w.protocol.send(c, due)
	c.flush()
}

// opened marks a connection as open, and adds it to the free connections. It adds the
// connection n times, because the connection can carry n requests at once.
func (w *worker) opened(c *conn, n int) {
	if c.opened {
		return
	}
	c.opened = true
	w.waiting--
	w.dialing--
	for range n {
		w.free.push(c)
	}
}

// finishRequest records the result of a request. It also releases the connection for the next
// request, unless result.keepBusy is true.
func (w *worker) finishRequest(c *conn, due int64, result outcome) {
	w.underWay--
	w.tally.recordResult(w.now, due, result, w.spec.Overtaking)
	if result.failure != nil {
		w.fail(result.failure)
	}
	if !result.keepBusy {
		w.release(c)
	}
}

// release uses a connection for the next request.
func (w *worker) release(c *conn) {
	switch {
	case w.backlog.len() > 0 && !c.dead:
		w.underWay++
		w.protocol.send(c, w.backlog.pop())
	case w.sending && w.most > 0:
		w.free.push(c)
		if next := w.take(); next != nil {
			w.sendOn(next, w.now)
		}
	case w.sending && w.spec.Rate == 0 && !c.dead:
		w.underWay++
		w.protocol.send(c, w.now)
	case !c.dead:
		w.free.push(c)
	}
}

// fail counts a failed request. Too many failures end the load.
func (w *worker) fail(cause error) {
	w.failures++
	if w.failures > failuresAllowed && w.broken == nil {
		w.broken = fmt.Errorf("more than %d failures, the last: %w", failuresAllowed, cause)
	}
}

var errAllConnsFailed = errors.New("all connections have failed")

// bury closes a connection permanently.
func (w *worker) bury(c *conn, cause error) {
	if c.dead {
		return
	}
	c.dead = true
	if !c.opened {
		w.broken = fmt.Errorf("opening a connection: %w", cause)
		return
	}
	for _, other := range w.conns {
		if !other.dead {
			return
		}
	}
	w.broken = fmt.Errorf("%w, the last: %w", errAllConnsFailed, cause)
}

// iterateUntil runs iterations until done returns true or the worker has failed. It
// returns false after the timeout.
func (w *worker) iterateUntil(done func() bool, timeout time.Duration) bool {
	deadline := clock.Now() + int64(timeout)
	for !done() && w.broken == nil {
		if w.iterate(longestWait); w.now > deadline {
			return false
		}
	}
	return true
}

// iterate waits for socket events and handles them.
func (w *worker) iterate(wait time.Duration) {
	events := w.poller.Wait(wait)
	w.now = clock.Now()
	for _, e := range events {
		if c := w.byFD[e.Fd]; c != nil {
			c.ready(e.Events)
		}
	}
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic("BUG: CLOCK_THREAD_CPUTIME_ID: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
