package exchange

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Drain is the end of a gate's life. Its states, in order, with no way back:
//
//	serving   → draining  Start (SIGTERM, `queue drain`)
//	draining  → quiet     no request has begun or ended for the quiet period;
//	                      with a period of 0, none is open
//	quiet     → served    no request is under way, tunnels aside: the container
//	                      may be asked to end, and close its tunnels itself
//	served    → ended     End, when the listeners are closed and the last
//	                      tunnel is gone
//
// While draining every request is still served. All methods may be called
// from any goroutine.
type Drain struct {
	clock        Clock
	period       time.Duration
	onStart      func() // called once the drain is active, without holding the lock; may be nil
	active       atomic.Bool
	requests     atomic.Int64 // open requests, counted before the drain as well
	tunnels      atomic.Int64 // open tunnels, likewise
	lastActivity atomic.Int64 // last beginning or end of a request, on clock; kept while draining only

	mu      sync.Mutex // moves from one state to the next
	state   drainState
	started chan struct{}
	quiet   chan struct{}
	served  chan struct{}
	ended   chan struct{}
}

type drainState uint8

const (
	drainServing drainState = iota
	drainDraining
	drainQuiet
	drainServed
	drainEnded
)

func newDrain(period time.Duration, clock Clock) *Drain {
	return &Drain{
		clock:   clock,
		period:  period,
		started: make(chan struct{}),
		quiet:   make(chan struct{}),
		served:  make(chan struct{}),
		ended:   make(chan struct{}),
	}
}

// Start begins the drain. Only the first call counts.
func (d *Drain) Start() {
	if d.start() && d.onStart != nil {
		d.onStart()
	}
}

// start begins the drain and reports whether this was the first call.
func (d *Drain) start() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drainServing {
		return false
	}
	d.noteActivity()
	d.state = drainDraining
	d.active.Store(true)
	close(d.started)
	if d.period > 0 {
		d.clock.After(d.period, d.checkQuiet)
	} else {
		d.advance()
	}
	return true
}

// Active reports whether probes are answered with "shutting down" and
// connections are asked to close.
func (d *Drain) Active() bool { return d.active.Load() }

// Enter counts a request as open, and Leave ends that.
func (d *Drain) Enter() {
	d.requests.Inc()
	if d.active.Load() {
		d.noteActivity()
	}
}

// Leave ends what Enter began.
func (d *Drain) Leave() {
	if d.requests.Dec() < 0 {
		panic("BUG: Drain.Leave without Enter")
	}
	d.noteLeave()
}

// EnterTunnel turns an open request into a tunnel; LeaveTunnel, in the place
// of Leave, ends it. A drain does not wait for tunnels to become quiet.
func (d *Drain) EnterTunnel() {
	d.tunnels.Inc()
	d.Leave()
}

// LeaveTunnel ends what EnterTunnel began.
func (d *Drain) LeaveTunnel() {
	if d.tunnels.Dec() < 0 {
		panic("BUG: Drain.LeaveTunnel without EnterTunnel")
	}
	d.noteLeave()
}

func (d *Drain) noteLeave() {
	if d.active.Load() {
		d.noteActivity()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.advance()
	}
}

// Requests is the number of requests under way, tunnels not among them.
func (d *Drain) Requests() int64 { return d.requests.Load() }

// Tunnels is the number of open tunnels.
func (d *Drain) Tunnels() int64 { return d.tunnels.Load() }

// Started is closed when the drain begins, Quiet when the listeners may
// close, Served when no request is under way any more, Ended when everything
// has gone. A drain that is cut short goes from any state to the last.
func (d *Drain) Started() <-chan struct{} { return d.started }

// Quiet is described at Started.
func (d *Drain) Quiet() <-chan struct{} { return d.quiet }

// Served is described at Started.
func (d *Drain) Served() <-chan struct{} { return d.served }

// Ended is described at Started.
func (d *Drain) Ended() <-chan struct{} { return d.ended }

// End says that everything has gone. Only the first call counts.
func (d *Drain) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == drainEnded {
		return
	}
	d.state = drainEnded
	close(d.ended)
}

func (d *Drain) noteActivity() { d.lastActivity.Store(int64(d.clock.Now())) }

// checkQuiet is called when the quiet period may be over. Requests that are open do
// not hold up its end, they are waited for afterwards.
func (d *Drain) checkQuiet() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drainDraining {
		return
	}
	if left := d.period - (d.clock.Now() - time.Duration(d.lastActivity.Load())); left > 0 {
		d.clock.After(left, d.checkQuiet)
		return
	}
	d.becomeQuiet()
}

// advance moves on if no request is open: from quiet, and with a period of 0
// from draining. The caller holds mu.
func (d *Drain) advance() {
	switch {
	case d.requests.Load() > 0:
	case d.state == drainDraining && d.period == 0:
		d.becomeQuiet()
	case d.state == drainQuiet:
		d.state = drainServed
		close(d.served)
	}
}

func (d *Drain) becomeQuiet() {
	d.state = drainQuiet
	close(d.quiet)
	d.advance()
}
