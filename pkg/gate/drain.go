package gate

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
	period   time.Duration
	active   atomic.Bool
	requests atomic.Int64 // open requests, counted before the drain as well
	tunnels  atomic.Int64 // open tunnels, likewise
	born     time.Time
	last     atomic.Int64 // last beginning or end of a request, in ns since born; kept while draining only
	start    sync.Once
	end      sync.Once
	started  chan struct{}
	quiet    chan struct{}
	served   chan struct{}
	ended    chan struct{}
	activity chan struct{}
}

func newDrain(period time.Duration) *Drain {
	return &Drain{
		period:   period,
		born:     time.Now(),
		started:  make(chan struct{}),
		quiet:    make(chan struct{}),
		served:   make(chan struct{}),
		ended:    make(chan struct{}),
		activity: make(chan struct{}, 1),
	}
}

// Start begins the drain. Only the first call counts.
func (d *Drain) Start() {
	d.start.Do(func() {
		d.touch()
		d.active.Store(true)
		close(d.started)
		go d.watch()
	})
}

// Active reports whether probes are answered with "shutting down" and
// connections are asked to close.
func (d *Drain) Active() bool { return d.active.Load() }

// Enter counts a request as open, and Leave ends that.
func (d *Drain) Enter() {
	d.requests.Inc()
	if d.active.Load() {
		d.touch()
	}
}

// Leave ends what Enter began.
func (d *Drain) Leave() {
	if d.requests.Dec() < 0 {
		panic("BUG: Drain.Leave without Enter")
	}
	d.left()
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
	d.left()
}

func (d *Drain) left() {
	if d.active.Load() {
		d.touch()
		select {
		case d.activity <- struct{}{}:
		default:
		}
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
func (d *Drain) End() { d.end.Do(func() { close(d.ended) }) }

func (d *Drain) touch() { d.last.Store(int64(time.Since(d.born))) }

func (d *Drain) watch() {
	d.awaitQuiet()
	close(d.quiet)
	for d.requests.Load() > 0 {
		select {
		case <-d.activity:
		case <-d.ended:
			if d.requests.Load() > 0 {
				return
			}
		}
	}
	close(d.served)
}

// awaitQuiet waits for the quiet period. Requests that are open do not hold up
// its end, they are waited for afterwards; only a period of 0 asks for none.
func (d *Drain) awaitQuiet() {
	for {
		if d.period == 0 {
			if d.requests.Load() == 0 {
				return
			}
			<-d.activity
			continue
		}
		left := d.period - (time.Since(d.born) - time.Duration(d.last.Load()))
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}
