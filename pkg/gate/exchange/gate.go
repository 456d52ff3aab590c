package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// Contact is notified when the container begins or ceases to accept connections. It is
// called on the loops and must not block.
type Contact interface {
	// Listening is called with false when connections begin to be refused, and with true
	// when one is accepted again.
	Listening(bool)
}

// Config configures the request path. A timeout of 0 is disabled, unless its comment says
// otherwise. Apply sets new values for some of the fields while the gate runs. A request
// that has already arrived keeps the old values.
type Config struct {
	ConcurrencyLimit int  // maximum requests in flight; 0 = unlimited
	QueueCapacity    int  // maximum queued requests; without a concurrency limit, maximum requests in the connect queue
	HardConcurrency  bool // hold the slot of a disconnected client's request until the container has finished

	// QueueRefusalStatus is the status for requests that do not fit into the queue, 503
	// or 429; 0 = 503.
	QueueRefusalStatus int
	// UnlimitedPaths are the paths of requests that need no slot and do not wait in the
	// queue. At most UnlimitedCapacity of these requests are served at once (0 =
	// DefaultUnlimitedCapacity). Further ones are rejected, as if the queue were full.
	UnlimitedPaths    []PathPattern
	UnlimitedCapacity int

	Overload OverloadConfig

	QueueMaxWait         time.Duration
	RequestTimeout       time.Duration // from arrival to the end of the response
	ResponseStartTimeout time.Duration // from arrival to the first byte of a response, which may be interim
	IdleTimeout          time.Duration // maximum time without a byte in either direction
	TunnelMax            time.Duration // maximum duration of a tunnel
	UpstreamWait         time.Duration // maximum wait until the container listens for the first time; 0 = no wait
	UpstreamRestartWait  time.Duration // maximum wait until the container listens again; 0 = no wait

	// WaitKeepalive is the interval of comments in the event stream of a client that
	// waits for a response. WaitPage is the time after which a waiting navigation gets
	// the waiting page. Both start at the arrival of the request; 0 = off.
	WaitKeepalive time.Duration
	WaitPage      time.Duration

	ServerTiming bool // add Server-Timing to responses
	RequestStart bool // add the time of arrival to requests as X-Request-Start

	LoadReports      LoadReports // which responses carry an ORCA load report
	LoadReportStream bool        // serve OpenRcaService to trusted sources over HTTP/2

	AllowHalfClose bool // a client's FIN does not count as a disconnect
	TLSOnly        bool // reject traffic without TLS, but not probes

	// HeadMemory limits the memory for all request heads in bytes, not counting the first
	// 8 KiB of each head; 0 = 16 MiB.
	HeadMemory int64

	// TrustedSources are the peers whose probes and forwarding fields are accepted:
	// K-Proxy-Request, K-Original-Host, X-Forwarded-* and Forwarded. Loopback is always
	// trusted. Empty = all peers.
	TrustedSources []netip.Prefix

	DrainQuiet  time.Duration // quiet period of a drain
	DrainTunnel time.Duration // maximum time for which a drain waits for tunnels after the quiet period; 0 = no wait

	// Admission may be nil; Init then creates it. If the controller is needed before
	// Init, set Admission to the result of NewAdmission.
	Admission   *admission.Controller
	Descriptors *Descriptors   // nil: derived from the descriptor limit of the process
	Readiness   gate.Readiness // nil: always ready
	Observer    gate.Observer  // nil: none
	States      gate.StateLog  // for debugging; nil: none
	Contact     Contact        // nil: none
	Standby     *Standby       // nil: the container is never suspended

	Jitter func() float64 // returns random numbers from -1 to 1 for delays; nil: math/rand
	Clock  Clock          // used by Drain and Descriptors; nil: the system's
}

// Gate is the state that all engines share. Fill in Config and call Init. Config is
// read-only afterwards; Apply does not change it, but replaces the settings derived from
// it.
type Gate struct {
	Config
	Drain    *Drain
	Connects ConnectQueue
	Retries  atomic.Int64 // number of retries
	Uploads  atomic.Int64 // requests with a slot whose body is not yet forwarded completely; counted only with Overload.Brake
	Heads    *Budget      // budget of HeadMemory bytes
	Bodies   *Budget      // budget of BodyMemory bytes for body buffers

	settings  atomic.Pointer[settings] // current settings; never nil after Init
	applyMu   sync.Mutex               // held while settings or the concurrency limit change
	evictions evictions                // registry of requests for Config.Overload.Evict
	unlimited *unlimited               // nil = no UnlimitedPaths
	load      *loadMeter               // nil = no load reports
	probes    waitingProbes
}

const (
	// FreeHeadBytes is the part of each head that does not count towards HeadMemory.
	FreeHeadBytes = 8 << 10
	// DefaultHeadMemory is the default of Config.HeadMemory.
	DefaultHeadMemory = 16 << 20
	// BodyMemory limits the memory for body buffers of all exchanges together.
	BodyMemory = 8 << 20
)

// Check returns all problems of c.
func (c *Config) Check() error {
	var problems []error
	if c.ConcurrencyLimit < 0 || c.ConcurrencyLimit > admission.MaxLimit {
		problems = append(problems, fmt.Errorf("ConcurrencyLimit %d: want 0 (unlimited) to %d", c.ConcurrencyLimit, admission.MaxLimit))
	}
	if c.QueueCapacity < 0 || c.QueueCapacity > admission.MaxCapacity {
		problems = append(problems, fmt.Errorf("QueueCapacity %d: want 0 to %d", c.QueueCapacity, admission.MaxCapacity))
	}
	if n := c.Overload.QueuePerSlot; n < 0 || n > 16 {
		problems = append(problems, fmt.Errorf("Overload.QueuePerSlot %d: want 0 to 16", n))
	}
	if n := c.Overload.CostLimit; n < 0 || n > admission.MaxCost {
		problems = append(problems, fmt.Errorf("Overload.CostLimit %d: want 0 (off) to %d", n, admission.MaxCost))
	}
	if c.Overload.CostBy.Set() != (c.Overload.CostLimit > 0) {
		problems = append(problems, errors.New("Overload.CostBy and Overload.CostLimit: want both or neither"))
	}
	if c.Overload.Evict.Set() && !c.Overload.PriorityBy.Set() {
		problems = append(problems, errors.New("Overload.Evict: want Overload.PriorityBy as well"))
	}
	if err := c.Overload.Evict.check(); err != nil {
		problems = append(problems, err)
	}
	if s := c.QueueRefusalStatus; s != 0 && s != 503 && s != 429 {
		problems = append(problems, fmt.Errorf("QueueRefusalStatus %d: want 503 or 429", s))
	}
	if c.UnlimitedCapacity < 0 || c.UnlimitedCapacity > admission.MaxLimit {
		problems = append(problems, fmt.Errorf("UnlimitedCapacity %d: want 0 to %d", c.UnlimitedCapacity, admission.MaxLimit))
	}
	for _, d := range c.durations() {
		if *d.value < 0 {
			problems = append(problems, fmt.Errorf("%s %s: want 0 or more", d.name, *d.value))
		}
	}
	return errors.Join(problems...)
}

type namedDuration struct {
	name  string
	value *time.Duration
}

// durations returns all fields of c that are durations.
func (c *Config) durations() []namedDuration {
	return []namedDuration{
		{"QueueMaxWait", &c.QueueMaxWait}, {"RequestTimeout", &c.RequestTimeout},
		{"ResponseStartTimeout", &c.ResponseStartTimeout}, {"IdleTimeout", &c.IdleTimeout},
		{"TunnelMax", &c.TunnelMax}, {"UpstreamWait", &c.UpstreamWait},
		{"UpstreamRestartWait", &c.UpstreamRestartWait}, {"DrainQuiet", &c.DrainQuiet}, {"DrainTunnel", &c.DrainTunnel},
		{"WaitKeepalive", &c.WaitKeepalive}, {"WaitPage", &c.WaitPage},
	}
}

// limitDurations sets durations above maxTimeout to maxTimeout, so that the sum of a time
// and a duration cannot overflow.
func (c *Config) limitDurations() {
	for _, d := range c.durations() {
		*d.value = min(*d.value, maxTimeout)
	}
}

// Init checks the Config, sets defaults and initializes the gate. Call it once, before
// any other use. The error joins all problems.
func (g *Gate) Init() error {
	if err := g.Check(); err != nil {
		return err
	}
	g.HeadMemory = cmp.Or(g.HeadMemory, DefaultHeadMemory)
	g.limitDurations()
	if g.Jitter == nil {
		g.Jitter = gate.Jitter
	}
	if g.Readiness == nil {
		g.Readiness = alwaysReady{}
	}
	if g.Admission == nil {
		g.Admission = g.NewAdmission()
	}
	if g.Descriptors == nil {
		g.Descriptors = NewDescriptors(0)
	}
	if g.Clock == nil {
		g.Clock = newSystemClock()
	} else {
		g.Descriptors.clock = g.Clock
	}
	g.Drain = newDrain(g.DrainQuiet, g.Clock)
	g.Drain.onStart = g.probes.settle
	g.Heads, g.Bodies = NewBudget(g.HeadMemory), NewBudget(BodyMemory)
	g.Connects.gate = g
	if g.Standby != nil {
		g.Standby.gate = g
	}
	g.settings.Store(newSettings(g, &g.Config))
	g.unlimited = newUnlimited(&g.Config)
	if g.LoadReports != NoLoadReports || g.LoadReportStream {
		g.load = &loadMeter{gate: g}
	}
	return nil
}

// Trusts reports whether peer is loopback or one of the TrustedSources.
func (g *Gate) Trusts(peer netip.Addr) bool {
	if len(g.TrustedSources) == 0 {
		return true
	}
	peer = peer.Unmap().WithZone("")
	if peer.IsLoopback() {
		return true
	}
	for _, p := range g.TrustedSources {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

type alwaysReady struct{}

func (alwaysReady) Try(gate.Prober) (gate.ReadinessResult, bool) {
	return gate.ReadinessResult{Ready: true}, true
}

func (alwaysReady) Await(_ gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	notify(gate.ReadinessResult{Ready: true})
	return func() {}
}

// AdmissionStats returns the admission figures and the drain state.
func (g *Gate) AdmissionStats() gate.AdmissionStats {
	s := g.Admission.Stats()
	s.Draining = g.Drain.Active()
	return s
}
