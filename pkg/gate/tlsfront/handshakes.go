package tlsfront

import (
	"container/list"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// handshakeTimeout is how long a client may take for its handshake, from its
	// hello on.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds those under way; others wait for their turn.
	maxHandshakes = 256
	// crowdedTimeout replaces handshakeTimeout for those that wait for their
	// clients, while others wait for their turn.
	crowdedTimeout = 500 * time.Millisecond
)

// handshakes are those under way, each on a goroutine of its own, and those
// that wait for their turn.
type handshakes struct {
	budget *exchange.Descriptors
	run    func(*handshake)
	// computing holds one for each handshake that does not wait for its client:
	// more than there are processors would only keep the event loops from
	// theirs.
	computing chan struct{}
	max       int           // active at once
	crowded   time.Duration // how long one may wait for its client while others are queued

	mu     sync.Mutex
	active list.List // of *handshake, oldest first
	queue  list.List // likewise; the youngest has the next turn: its client is still there
	cut    int       // of the active ones have been asked to end
	retry  *time.Timer
	closed bool
	ended  sync.WaitGroup
}

// handshake is that of one client.
type handshake struct {
	conn  *conn
	place *list.Element

	// Guarded by the mutex of handshakes.
	since   int64 // when its client's hello came, on the clock of loops
	reading int64 // since when it waits for its client; 0 = it does not
	cut     bool  // it is to end
}

func newHandshakes(budget *exchange.Descriptors, run func(*handshake)) *handshakes {
	s := &handshakes{budget: budget, run: run, computing: make(chan struct{}, runtime.GOMAXPROCS(0)), max: maxHandshakes, crowded: crowdedTimeout}
	budget.Add(s)
	return s
}

// add begins a handshake, or lets it wait for its turn. It does not block, and
// returns false once there are to be no more.
func (s *handshakes) add(h *handshake) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	h.since = loop.Nanotime()
	if s.active.Len() < s.max {
		s.start(h)
		return true
	}
	s.queue.PushBack(h)
	s.relieve()
	return true
}

// start runs h. The caller holds mu.
func (s *handshakes) start(h *handshake) {
	h.place = s.active.PushBack(h)
	_ = h.conn.SetDeadline(loop.TimeOf(h.since).Add(handshakeTimeout))
	s.ended.Go(func() {
		s.computing <- struct{}{}
		s.run(h)
		<-s.computing
	})
}

// finish gives the place of h to the next one. It returns false if h has been
// cut; from then on nothing else touches its connection.
func (s *handshakes) finish(h *handshake) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active.Remove(h.place)
	if h.cut {
		s.cut--
	}
	if next := s.queue.Back(); next != nil {
		s.start(s.queue.Remove(next).(*handshake))
	}
	return !h.cut
}

// read lets another handshake compute while h waits for its client.
func (s *handshakes) read(h *handshake, b []byte) (int, error) {
	s.mu.Lock()
	h.reading = loop.Nanotime()
	s.mu.Unlock()
	<-s.computing
	n, err := h.conn.File.Read(b)
	s.computing <- struct{}{}
	s.mu.Lock()
	h.reading = 0
	s.mu.Unlock()
	return n, err
}

// relieve cuts handshakes that have waited for their clients for long, as many
// as there are others in the queue. The caller holds mu.
func (s *handshakes) relieve() {
	for s.cut < s.queue.Len() {
		h := s.oldest(s.crowded)
		if h == nil {
			break
		}
		s.end(h)
	}
	if s.queue.Len() > 0 && s.retry == nil {
		s.retry = time.AfterFunc(s.crowded/10, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.retry = nil
			s.relieve()
		})
	}
}

// oldest is the handshake that began first of those that have waited for their
// clients for long enough, or nil. The caller holds mu.
func (s *handshakes) oldest(enough time.Duration) *handshake {
	until := loop.Nanotime() - int64(enough)
	for e := s.active.Front(); e != nil; e = e.Next() {
		if h := e.Value.(*handshake); h.reading != 0 && h.reading <= until && !h.cut {
			return h
		}
	}
	return nil
}

// end cuts h. The caller holds mu.
func (s *handshakes) end(h *handshake) {
	h.cut = true
	s.cut++
	_ = h.conn.SetDeadline(time.Unix(1, 0))
}

// close cuts all handshakes, and waits for their ends.
func (s *handshakes) close() {
	s.mu.Lock()
	s.closed = true
	queued := slices.Collect(values(&s.queue))
	s.queue.Init()
	for h := range values(&s.active) {
		if !h.cut {
			s.end(h)
		}
	}
	s.mu.Unlock()
	for _, h := range queued {
		_ = h.conn.Close()
		s.budget.Release()
	}
	s.ended.Wait()
}

func values(l *list.List) iter.Seq[*handshake] {
	return func(yield func(*handshake) bool) {
		for e := l.Front(); e != nil && yield(e.Value.(*handshake)); e = e.Next() {
		}
	}
}

// len is the number of handshakes that have begun and not ended.
func (s *handshakes) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active.Len() + s.queue.Len()
}

// Oldest implements gate.IdleConnections.
func (s *handshakes) Oldest(found func(exchange.IdleConnection, bool)) {
	s.mu.Lock()
	h := s.oldest(exchange.MinIdle)
	c := exchange.IdleConnection{Idleness: exchange.UnfinishedHead}
	if h != nil {
		c.Since = h.since
	}
	s.mu.Unlock()
	found(c, h != nil)
}

// CloseOldest implements gate.IdleConnections.
func (s *handshakes) CloseOldest(exchange.Idleness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.oldest(exchange.MinIdle); h != nil {
		s.end(h)
		s.budget.NoteReclaimed()
	}
}
