package statuspage

import (
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Facts are constant while the gate runs, except Settings, which change with each
// generation of Config.Live. They must not contain secrets.
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

// Setting is a line of the configuration.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Empty  string `json:"empty,omitempty"` // meaning of an empty value
	Source string `json:"source"`
	Masked bool   `json:"masked,omitempty"` // a part of Value was removed
}

// Config configures a Page. The callbacks are called at most once a second, and only
// while the page is open. The page omits the data of a callback that is nil.
type Config struct {
	Facts        Facts
	History      *History
	Timeline     *Timeline
	Containers   func() []gate.ContainerState // in the order of Timeline
	Upstream     func() gate.UpstreamStats
	Drain        func() Drain
	Live         func() gate.SettingsStats
	Settings     func() []Group // settings of the current generation of Live; nil = Facts.Settings
	StartTimeout time.Duration  // maximum duration of the state Starting
}

// Drain is the progress of the drain.
type Drain struct {
	Active            bool
	Requests, Tunnels int64 // open, counted separately
}

// Page is an http.Handler that serves the status page.
type Page struct {
	cfg     Config
	started int64 // wall clock in ms; differs between runs of the gate
	ended   atomic.Bool
	closed  chan struct{}
	closing sync.Once

	mu      sync.Mutex
	latest  *frame
	last    sent // newest data in any frame
	viewers int
}

// New returns a page. Each page needs its own History.
func New(cfg Config) *Page {
	p := &Page{cfg: cfg, closed: make(chan struct{}), latest: newFrame(0)}
	p.started = time.Now().Add(-cfg.History.src.Clock()).UnixMilli()
	cfg.History.mu.Lock()
	cfg.History.sampled = p.publish
	cfg.History.mu.Unlock()
	return p
}

// Close sends a last message on each event stream, and then ends the stream. It also ends
// the History.
func (p *Page) Close() {
	p.closing.Do(func() {
		p.ended.Store(true)
		p.cfg.History.Close() // publishes the events since the last second
		close(p.closed)
	})
}
