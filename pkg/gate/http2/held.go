package http2

import (
	"net"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// heldLine is where requests wait while the container does not listen. One
// goroutine makes the attempts as long as somebody waits; its success releases
// all.
type heldLine struct {
	up     *upstream
	held   atomic.Int64
	sooner chan struct{} // an attempt is worth while now

	mu      sync.Mutex
	down    int64         // since when connections are refused; 0 = they are not
	reach   chan struct{} // closed when one is accepted
	trying  bool
	spare   net.Conn // the connection of the attempt that succeeded
	closed  bool
	retired sync.WaitGroup
}

func (l *heldLine) init(u *upstream) {
	l.up, l.down = u, now()
	l.sooner = make(chan struct{}, 1)
	l.reach = make(chan struct{})
}

// blocked reports whether others are waiting already.
func (l *heldLine) blocked() bool {
	if l.held.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down != 0
}

// refused notes that the container does not listen.
func (l *heldLine) refused() {
	l.mu.Lock()
	first := l.down == 0
	if first {
		l.down = now()
		l.reach = make(chan struct{})
	}
	l.mu.Unlock()
	if first {
		l.up.forget(H2C)
		l.up.forget(HTTP1)
		if c := l.up.gate.Contact; c != nil {
			c.Listening(false)
		}
	}
}

// reached notes that the container listens and releases those who wait.
func (l *heldLine) reached() {
	l.mu.Lock()
	first := l.down != 0
	if first {
		l.down = 0
		close(l.reach)
	}
	l.mu.Unlock()
	if first {
		l.up.listened.Store(true)
		if c := l.up.gate.Contact; c != nil {
			c.Listening(true)
		}
	}
}

// hold waits until the container listens.
func (l *heldLine) hold(s *stream) gate.Outcome {
	g := l.up.gate
	if g.ConcurrencyLimit == 0 && l.held.Load() >= int64(g.QueueCapacity) {
		return gate.QueueFull
	}
	if s.giveUp == 0 {
		patience := g.UpstreamWait
		if l.up.listened.Load() {
			patience = g.UpstreamRestartWait
		}
		s.giveUp = now() + int64(patience)
	}
	l.held.Inc()
	defer l.held.Dec()
	l.mu.Lock()
	if l.down == 0 {
		l.mu.Unlock()
		return gate.Served
	}
	reach := l.reach
	if !l.trying && !l.closed {
		l.trying = true
		l.retired.Add(1)
		go l.try()
	}
	l.mu.Unlock()

	timer := time.NewTimer(time.Duration(s.giveUp - now()))
	defer timer.Stop()
	select {
	case <-reach:
	case <-timer.C:
		return gate.UpstreamNotListening
	case <-s.ctx.Done():
	case <-s.r.Context().Done():
	}
	return s.ended()
}

// try attempts to connect, at the quick pace, as long as somebody waits.
func (l *heldLine) try() {
	defer l.retired.Done()
	for {
		raw, err := net.DialTimeout("tcp", l.up.address, dialPatience)
		l.mu.Lock()
		if err == nil {
			l.putSpare(raw)
		}
		if err == nil || l.held.Load() == 0 || l.closed {
			l.trying = false
			l.mu.Unlock()
			if err == nil {
				l.reached()
			}
			return
		}
		delay := gate.QuickPace(now() - l.down)
		l.mu.Unlock()
		timer := time.NewTimer(time.Duration(delay))
		select {
		case <-timer.C:
		case <-l.sooner:
		}
		timer.Stop()
	}
}

// putSpare keeps a connection for the next who dials. The caller holds mu.
func (l *heldLine) putSpare(c net.Conn) {
	if l.spare != nil || l.closed || l.held.Load() == 0 {
		_ = c.Close()
		return
	}
	l.spare = c
}

// takeSpare returns the connection of a successful attempt, or nil.
func (l *heldLine) takeSpare() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.spare
	l.spare = nil
	return c
}

// hurry makes the next attempt at once.
func (l *heldLine) hurry() {
	if l.held.Load() > 0 {
		select {
		case l.sooner <- struct{}{}:
		default:
		}
	}
}

func (l *heldLine) close() {
	l.mu.Lock()
	l.closed = true
	if l.spare != nil {
		_ = l.spare.Close()
		l.spare = nil
	}
	l.mu.Unlock()
	select {
	case l.sooner <- struct{}{}:
	default:
	}
	l.retired.Wait()
}
