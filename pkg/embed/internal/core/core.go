package core

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Gate is the underlying type of embed.Gate.
type Gate struct{ state *State }

// NewGate returns the Gate of s.
func NewGate(s *State) *Gate { return &Gate{s} }

// State returns the state of g.
func (g *Gate) State() *State { return g.state }

// Config is the argument of New.
type Config struct {
	Exchange  exchange.Config
	Names     metrics.Names
	Identity  metrics.Identity
	Uncounted []string // paths
	// RequestEnded is called at the end of each counted request. The Record is valid only
	// during the call. RequestEnded may be nil.
	RequestEnded func(*gate.Record)
}

// State is the state of a gate. All methods may be called concurrently.
type State struct {
	Config
	Gate     *exchange.Gate
	Counting metrics.Counting
	Requests *metrics.Requests
	Page     *metrics.Collector

	// NeedsHead means that Config.RequestEnded or an overload feature reads Record.Peer
	// and Record.Fields. The caller must then set both.
	NeedsHead  bool
	DrainStage func(stage string) // called when the drain begins and ends; may be nil; set before the first request

	exchanges sync.Pool // of *exchange.Blocking, initialized
	born      time.Time
	clock     func() int64            // method value of Clock
	watcher   atomic.Pointer[Watcher] // nil = none
	// arrived is the time of the latest arrival of a request since the drain began, on
	// the gate's clock. If no request has arrived since, it is the time at which the
	// drain began. 0 = the drain has not begun.
	arrived     atomic.Int64
	requestDone chan struct{} // capacity 1; wakes the drain after a request has ended
}

// New creates the state. c must be valid. ready returns the readiness of the state; if
// ready is nil, the gate is always ready.
func New(c Config, ready func(*State) gate.Readiness) (*State, error) {
	s := &State{Config: c, born: time.Now(), requestDone: make(chan struct{}, 1)}
	s.clock = s.Clock
	s.Gate = &exchange.Gate{Config: c.Exchange}
	s.Gate.Observer = (*observer)(s)
	s.NeedsHead = c.RequestEnded != nil || c.Exchange.Overload != exchange.OverloadConfig{}
	if ready != nil {
		s.Gate.Readiness = ready(s)
	}
	if err := s.Gate.Init(); err != nil {
		return nil, err
	}
	s.exchanges.New = func() any { return s.NewExchange() }
	s.Requests = metrics.NewRequests()
	s.Page = metrics.NewCollector(metrics.CollectorConfig{
		Names: c.Names, Identity: c.Identity, Build: Build(), Requests: s.Requests, Admission: s.Gate.AdmissionStats,
	})
	return s, nil
}

// NewExchange returns an exchange that serves one request after another. Call its Reset
// between two requests.
func (s *State) NewExchange() *exchange.Blocking { return exchange.NewBlocking(s.Gate, s.clock) }

// GetExchange returns an exchange with an empty Record.
func (s *State) GetExchange() *exchange.Blocking { return s.exchanges.Get().(*exchange.Blocking) }

// PutExchange returns an exchange to the pool. The exchange must have ended.
func (s *State) PutExchange(life *exchange.Blocking) {
	life.Reset()
	s.exchanges.Put(life)
}

// Now returns the time since New on the gate's clock, which is monotonic and never 0.
func (s *State) Now() time.Duration { return max(time.Since(s.born), 1) }

// Clock returns Now in ns, for exchanges.
func (s *State) Clock() int64 { return int64(s.Now()) }

// WallTime converts a time on the gate's clock to wall-clock time.
func (s *State) WallTime(now time.Duration) time.Time { return s.born.Add(now) }

// uncounted is the Context of an exchange that is not counted.
type uncounted struct{}

// Count reports whether metrics count a request. The parameter path is the request's path
// after percent-decoding. If the request is not counted, Count marks its exchange, so
// that the observer skips it. Call Count before life.Arrive.
func (s *State) Count(life *exchange.Blocking, path []byte) bool {
	for _, name := range s.Uncounted {
		if name == string(path) {
			life.Context = uncounted{}
			return false
		}
	}
	return true
}

// Watcher has functions that are called concurrently for each counted request.
type Watcher struct {
	RequestBegan func()
	RequestEnded func(*gate.Record) // the Record is valid only during the call
}

// Watch sets the watcher; w replaces the previous one.
func (s *State) Watch(w *Watcher) { s.watcher.Store(w) }

const modulePath = "github.com/queuegate/queuegate"

// Build returns the version of this module in the running program.
func Build() metrics.Build {
	b := metrics.Build{Version: "development", Commit: "unknown", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			b.Version = m.Version
		}
	}
	return b
}
