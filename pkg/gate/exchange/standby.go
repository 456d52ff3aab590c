package exchange

import (
	"time"

	"go.uber.org/atomic"
)

// Standby suspends the container while no request or tunnel is open, and keeps requests
// away from it until it runs again. The decision is atomic. Its states:
//
//	running   → suspended  Suspend, if no request is open and none has been for a time
//	suspended → running    Resume: the container has been started again
//
// Requests that begin in the state suspended join the connect queue without attempting to
// connect. Every request is counted from Begin to End in the word that also holds the
// state. So either a request is counted before Suspend, which then fails, or it sees the
// new state. All methods may be called from any goroutine.
type Standby struct {
	gate   *Gate
	wanted func()

	// word holds, from the lowest bit: the number of open requests and tunnels
	// (standbyOpen), the state (1 bit), and the number of requests that have begun,
	// which may overflow.
	word    atomic.Uint64
	lastEnd atomic.Int64 // time at which a request last ended, in ns on the clock of the loops
}

const (
	standbyOpen      = 1<<32 - 1
	standbySuspended = 1 << 32
	standbyBegun     = 1 << 33
)

// wakePace limits the delay between two connection attempts to a container that has been
// started for a request. Other starts use QuickPace, which is slower, because no request
// is known to wait.
const wakePace = int64(1500 * time.Microsecond)

// NewStandby returns a Standby. The gate must have it as Config.Standby. wanted is called
// when a request begins while the container is suspended; it must not block.
func NewStandby(wanted func()) *Standby { return &Standby{wanted: wanted} }

// enter counts a request that begins.
func (s *Standby) enter() {
	if s.word.Add(standbyBegun|1)&standbySuspended != 0 {
		s.wanted()
	}
}

// leave counts a request that ends at now.
func (s *Standby) leave(now int64) {
	s.lastEnd.Store(now)
	if s.word.Dec()&standbyOpen == standbyOpen {
		panic("BUG: Standby.leave without enter")
	}
}

// Touch restarts the measurement of the time without an open request.
func (s *Standby) Touch(now int64) { s.lastEnd.Store(now) }

// Running reports whether requests may be sent to the container.
func (s *Standby) Running() bool { return s.word.Load()&standbySuspended == 0 }

// Open returns the number of open requests and tunnels.
func (s *Standby) Open() int { return int(s.word.Load() & standbyOpen) }

// Suspend suspends the running container if no request has been open for the time idle,
// and reports whether it did. Otherwise left is the time after which to try again.
func (s *Standby) Suspend(now int64, idle time.Duration) (left time.Duration, ok bool) {
	word := s.word.Load()
	if word&(standbyOpen|standbySuspended) != 0 {
		return idle, false
	}
	if left := idle - time.Duration(now-s.lastEnd.Load()); left > 0 {
		return left, false
	}
	// The swap fails if a request has begun in between, even if it has already ended.
	if !s.word.CompareAndSwap(word, word|standbySuspended) {
		return idle, false
	}
	s.gate.Connects.listened.Store(false)
	return 0, true
}

// Resume releases the queued requests. It is called at now, when the container has been
// started and is expected to listen soon. The requests wait for at most UpstreamWait from
// then on.
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
