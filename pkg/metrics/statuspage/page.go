package statuspage

import (
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Facts do not change while the gate runs. They must hold no
// secret.
type Facts struct {
	Version   string  `json:"version"`
	Commit    string  `json:"commit"`
	GoVersion string  `json:"goVersion"`
	Namespace string  `json:"namespace"`
	Service   string  `json:"service"`
	Revision  string  `json:"revision"`
	Pod       string  `json:"pod"`
	Settings  []Group `json:"settings"`
}

// Group is a titled part of the configuration.
type Group struct {
	Title    string    `json:"title"`
	Settings []Setting `json:"settings"`
}

// Setting is one line of the configuration.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Empty  string `json:"empty,omitempty"` // what an empty value means
	Source string `json:"source"`
	Masked bool   `json:"masked,omitempty"` // something was left out of Value
}

// Config is what a Page shows. The callbacks are called once a second at most,
// and only while the page is open somewhere; nil ones are left out.
type Config struct {
	Facts        Facts
	History      *History
	Timeline     *Timeline
	Containers   func() []gate.ContainerState // in the order of Timeline
	Upstream     func() gate.UpstreamStats
	Drain        func() Drain
	StartTimeout time.Duration // how long a container that was never ready is starting
}

// Drain is the end of the gate as far as it has come.
type Drain struct {
	Active            bool
	Requests, Tunnels int64 // under way, one of them or the other
}

// Page feeds all its viewers. It is an http.Handler.
type Page struct {
	cfg     Config
	started int64 // wall clock in ms; differs from one run of the gate to another
	ended   atomic.Bool
	closed  chan struct{}
	closing sync.Once

	mu      sync.Mutex
	latest  *frame
	last    sent // what latest and those before it contained
	viewers int
}

// New shows cfg.History, which must be of this page alone.
func New(cfg Config) *Page {
	p := &Page{cfg: cfg, closed: make(chan struct{}), latest: newFrame(0)}
	p.started = time.Now().Add(-cfg.History.src.Clock()).UnixMilli()
	cfg.History.mu.Lock()
	cfg.History.sampled = p.publish
	cfg.History.mu.Unlock()
	return p
}

// Close ends all streams, with a last message, and the history.
func (p *Page) Close() {
	p.closing.Do(func() {
		p.ended.Store(true)
		p.cfg.History.Close() // it publishes what has come since its last second
		close(p.closed)
	})
}
