package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// Standby suspends the container while no request or tunnel is open. It has two states,
// and these methods change the state:
//
//	running   → suspended  Suspend, if no request has been open for some time
//	suspended → running    Resume, after the container has been started again
//
// A request that begins in the state suspended waits in the connect queue and does not
// attempt to connect. All methods may be called from any goroutine.
type Standby struct {
	gate   *Gate
	wanted func()

	// word holds three numbers, which change together in one atomic operation. The lowest
	// 32 bits count the open requests and tunnels. The next bit is the state
	// (standbySuspended). The other 31 bits count the requests begun, and may overflow.
	// Suspend cannot miss a request that begins meanwhile: either the compare-and-swap
	// in Suspend fails, or the request finds the container suspended.
	word    atomic.Uint64
	lastEnd atomic.Int64 // time in ns at which a request last ended
}

const (
	standbyOpen      = 1<<32 - 1
	standbySuspended = 1 << 32
	standbyBegun     = 1 << 33
)

// wakePace is the maximum delay between connection attempts to a container that was
// started for a waiting request.
const wakePace = int64(1500 * time.Microsecond)

// NewStandby returns a Standby for Config.Standby. wanted is called when a request begins
// while the container is suspended; it must not block.
func NewStandby(wanted func()) *Standby { return &Standby{wanted: wanted} }

func (s *Standby) enter() {
	if s.word.Add(standbyBegun|1)&standbySuspended != 0 {
		s.wanted()
	}
}

func (s *Standby) leave(now int64) {
	s.lastEnd.Store(now)
	if s.word.Dec()&standbyOpen == standbyOpen {
		panic("BUG: Standby.leave without enter")
	}
}

// Touch restarts the idle time that Suspend measures.
func (s *Standby) Touch(now int64) { s.lastEnd.Store(now) }

// Running reports whether requests may be sent to the container.
func (s *Standby) Running() bool { return s.word.Load()&standbySuspended == 0 }

// Open returns the number of open requests and tunnels.
func (s *Standby) Open() int { return int(s.word.Load() & standbyOpen) }

// Suspend suspends the container if no request has been open for at least the duration
// idle. Otherwise ok is false, and the caller can try again after the duration remaining.
func (s *Standby) Suspend(now int64, idle time.Duration) (remaining time.Duration, ok bool) {
	word := s.word.Load()
	if word&(standbyOpen|standbySuspended) != 0 {
		return idle, false
	}
	if remaining := idle - time.Duration(now-s.lastEnd.Load()); remaining > 0 {
		return remaining, false
	}
	// The swap fails if a request has begun in the meantime, even if it has ended.
	if !s.word.CompareAndSwap(word, word|standbySuspended) {
		return idle, false
	}
	s.gate.Connects.listened.Store(false)
	return 0, true
}

// Resume releases the queued requests, because the container has been started. From now
// on they wait for at most UpstreamWait.
func (s *Standby) Resume(now int64) {
	p := &s.gate.Connects
	p.mu.Lock()
	p.attemptAt, p.maxPace = 0, wakePace
	p.mu.Unlock()
	p.refusedSince.Store(now)
	s.Touch(now)
	for {
		word := s.word.Load()
		if word&standbySuspended == 0 {
			panic("BUG: Standby.Resume of a running container")
		}
		if s.word.CompareAndSwap(word, word&^standbySuspended) {
			break
		}
	}
	p.wakeAll()
}
