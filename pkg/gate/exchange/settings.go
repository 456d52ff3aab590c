package exchange

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// settings is the part of a Config that Apply replaces. It is immutable: a request keeps
// the settings in force when it arrived, so it never mixes two configurations.
type settings struct {
	queueCapacity        int
	refusalStatus        int // 0 = status of the outcome
	queueMaxWait         time.Duration
	requestTimeout       time.Duration
	responseStartTimeout time.Duration
	idleTimeout          time.Duration
	tunnelMax            time.Duration
	upstreamWait         time.Duration
	upstreamRestartWait  time.Duration
	overload             *overload   // nil = none of Overload is configured
	wait                 *waitConfig // nil = waiting clients are told nothing
}

// newSettings returns the settings of c. It keeps the estimates of the overload control
// in force.
func newSettings(g *Gate, c *Config) *settings {
	var previous *overload
	if s := g.settings.Load(); s != nil {
		previous = s.overload
	}
	return &settings{
		queueCapacity:        c.QueueCapacity,
		refusalStatus:        c.QueueRefusalStatus,
		queueMaxWait:         min(c.QueueMaxWait, maxTimeout),
		requestTimeout:       min(c.RequestTimeout, maxTimeout),
		responseStartTimeout: min(c.ResponseStartTimeout, maxTimeout),
		idleTimeout:          min(c.IdleTimeout, maxTimeout),
		tunnelMax:            min(c.TunnelMax, maxTimeout),
		upstreamWait:         min(c.UpstreamWait, maxTimeout),
		upstreamRestartWait:  min(c.UpstreamRestartWait, maxTimeout),
		overload:             newOverload(g, c.Overload, previous),
		wait:                 newWaitConfig(c),
	}
}

// statusOf returns the status of the reply to a request that ends with o.
func (s *settings) statusOf(o gate.Outcome) int {
	m := o.Meaning()
	if m.QueueRetry && s.refusalStatus != 0 {
		return s.refusalStatus
	}
	return m.Status
}

// Apply sets ConcurrencyLimit, QueueCapacity, QueueRefusalStatus, QueueMaxWait,
// Overload, RequestTimeout, ResponseStartTimeout, IdleTimeout, TunnelMax, UpstreamWait,
// UpstreamRestartWait, WaitKeepalive and WaitPage to the values in c while the gate runs, and
// ignores the other fields. It changes nothing if it returns an error. Requests that have already arrived
// keep their timeouts, queue positions and slots, so a lower limit takes effect as slots
// are released. Apply may be called from any goroutine.
func (g *Gate) Apply(c *Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	s := newSettings(g, c)
	// Store the settings first: requests need a class and a key before the queue is fair.
	g.settings.Store(s)
	g.Admission.Configure(c.admission(s.overload))
	return nil
}

// applyLimit sets the concurrency limit to that of a, unless other settings have
// replaced a.
func (g *Gate) applyLimit(a *admission.AutoLimit) {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	if v := g.settings.Load().overload; v != nil && v.limiter == a {
		g.Admission.SetLimit(a.Limit())
	}
}
