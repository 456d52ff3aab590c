package exchange

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// settings is a copy of the Config that Init or Apply gets, with limits on its durations.
// It is immutable. A request keeps the settings with which it arrived. Read only the
// fields that Apply replaces from it, and the others from Gate.Config.
type settings struct {
	Config
	overload *overload   // nil = off
	wait     *waitConfig // nil = off
}

// newSettings returns the settings for c. It keeps the estimates of the previous overload
// control.
func newSettings(g *Gate, c *Config) *settings {
	var previous *overload
	if s := g.settings.Load(); s != nil {
		previous = s.overload
	}
	s := &settings{Config: *c, overload: newOverload(g, c.Overload, previous), wait: newWaitConfig(c)}
	s.limitDurations()
	return s
}

// statusOf returns the status of the reply to a request that ends with o.
func (s *settings) statusOf(o gate.Outcome) int {
	m := o.Meaning()
	if m.QueueRetry && s.QueueRefusalStatus != 0 {
		return s.QueueRefusalStatus
	}
	return m.Status
}

// Apply replaces these fields while the gate runs: ConcurrencyLimit, QueueCapacity,
// QueueRefusalStatus, QueueMaxWait, Overload, RequestTimeout, ResponseStartTimeout,
// IdleTimeout, TunnelMax, UpstreamWait, UpstreamRestartWait, WaitKeepalive and WaitPage.
// It ignores other fields of c, and changes nothing if it returns an error. Requests that
// have arrived keep their timeouts, queue positions and slots. Apply may be called from
// any goroutine.
func (g *Gate) Apply(c *Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	s := newSettings(g, c)
	// Store the settings first. With them, each new request sets a class and a key, which
	// a fair queue requires.
	g.settings.Store(s)
	g.Admission.Configure(c.admission(s.overload))
	return nil
}

// applyLimit makes the current limit of a take effect in Admission. It does nothing if
// Apply has replaced the limiter a in the meantime.
func (g *Gate) applyLimit(a *admission.AutoLimit) {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	if v := g.settings.Load().overload; v != nil && v.limiter == a {
		g.Admission.SetLimit(a.Limit())
	}
}
