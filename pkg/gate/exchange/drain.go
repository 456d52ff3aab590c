package exchange

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Drain is the shutdown sequence of a gate. Its states, in order:
//
//	serving   → draining  Start (SIGTERM, `queue drain`)
//	draining  → quiet     no request began or ended for the quiet period;
//	                      with a period of 0: no request is open
//	quiet     → served    no request is open (tunnels may be): the container
//	                      may be asked to terminate
//	served    → ended     End, after the listeners and the last tunnel are closed
//
// After HandOver instead of Start, another process serves new connections. The service
// does not end, so probes get the same replies as before.
//
// While draining, requests are still served. All methods may be called from any
// goroutine.
type Drain struct {
	clock        Clock
	period       time.Duration
	onStart      func() // called once, without mu held, when Start begins the drain; may be nil
	active       atomic.Bool
	handedOver   atomic.Bool  // written before active
	requests     atomic.Int64 // open requests; always counted
	tunnels      atomic.Int64 // open tunnels; always counted
	lastActivity atomic.Int64 // time at which a request last began or ended; updated only while draining

	mu      sync.Mutex // guards state transitions
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

// Start begins the drain. Only the first call of Start or HandOver has an effect.
func (d *Drain) Start() {
	if d.start(false) && d.onStart != nil {
		d.onStart()
	}
}

// HandOver begins the drain of a gate whose listeners another process has taken over. It
// returns false if a drain had already begun.
func (d *Drain) HandOver() bool { return d.start(true) }

func (d *Drain) start(handedOver bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drainServing {
		return false
	}
	d.handedOver.Store(handedOver)
	d.noteActivity()
	d.state = drainDraining
	d.active.Store(true)
	close(d.started)
	if d.period > 0 {
		d.clock.AfterFunc(d.period, d.checkQuiet)
	} else {
		d.advance()
	}
	return true
}

// Active reports whether the drain has begun.
func (d *Drain) Active() bool { return d.active.Load() }

// HandedOver reports whether the drain was begun by HandOver.
func (d *Drain) HandedOver() bool { return d.handedOver.Load() }

// Terminating reports whether a drain by Start has begun. Probes then get the reply
// "shutting down".
func (d *Drain) Terminating() bool { return d.active.Load() && !d.handedOver.Load() }

// Enter counts a request that begins.
func (d *Drain) Enter() {
	d.requests.Inc()
	if d.active.Load() {
		d.noteActivity()
	}
}

// Leave counts a request that ends.
func (d *Drain) Leave() {
	if d.requests.Dec() < 0 {
		panic("BUG: Drain.Leave without Enter")
	}
	d.noteLeave()
}

// EnterTunnel turns an open request into a tunnel, which is ended by LeaveTunnel instead
// of Leave.
func (d *Drain) EnterTunnel() {
	d.tunnels.Inc()
	d.Leave()
}

// LeaveTunnel counts a tunnel that ends.
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

// Requests returns the number of open requests, not counting tunnels.
func (d *Drain) Requests() int64 { return d.requests.Load() }

// Tunnels returns the number of open tunnels.
func (d *Drain) Tunnels() int64 { return d.tunnels.Load() }

// Started returns a channel that is closed when the drain begins. It stays open if End is
// called first, so wait for Ended too. The same applies to Quiet and Served.
func (d *Drain) Started() <-chan struct{} { return d.started }

// Quiet returns a channel that is closed when the listeners may close.
func (d *Drain) Quiet() <-chan struct{} { return d.quiet }

// Served returns a channel that is closed when no request is open. Tunnels may be open.
func (d *Drain) Served() <-chan struct{} { return d.served }

// Ended returns a channel that is closed by End.
func (d *Drain) Ended() <-chan struct{} { return d.ended }

// End enters the final state from any state. Further calls have no effect.
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

// checkQuiet makes the transition to quiet, if the quiet period has passed. Open requests
// do not prevent it.
func (d *Drain) checkQuiet() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drainDraining {
		return
	}
	if remaining := d.period - (d.clock.Now() - time.Duration(d.lastActivity.Load())); remaining > 0 {
		d.clock.AfterFunc(remaining, d.checkQuiet)
		return
	}
	d.becomeQuiet()
}

// advance makes the transitions that are due as soon as no request is open: from quiet to
// served and, if the quiet period is 0, from draining to quiet. It does nothing while a
// request is open. The caller holds mu.
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
