package statuspage

import (
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Facts do not change while the gate runs. Whoever fills them in sees to it that
// no secret is among them.
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
// and only while somebody looks; nil ones are left out.
type Config struct {
	Facts      Facts
	History    *History
	Timeline   *Timeline
	Containers func() []metrics.Container // in the order of Timeline
	Upstream   func() gate.UpstreamStats
	State      func() string // of the gate as a whole: serving, draining
}

// Page feeds everybody who looks at it. It is an http.Handler.
type Page struct {
	cfg     Config
	started int64 // wall clock in ms; tells one run of the gate from another
	closed  chan struct{}
	closing sync.Once

	mu      sync.Mutex
	latest  *frame
	last    sent // what latest and those before it have told
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

// Close ends all streams and the history.
func (p *Page) Close() {
	p.closing.Do(func() {
		close(p.closed)
		p.cfg.History.Close()
	})
}
