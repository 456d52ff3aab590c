package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// Contact observes what the request path sees of the container. It is called
// on the engine's loops and must not block.
type Contact interface {
	// Listening is called when connections begin to be refused (false), and when
	// one is accepted again (true).
	Listening(bool)
}

// Config is what the request path needs to know. Durations of 0 switch a
// clock off.
type Config struct {
	ConcurrencyLimit int  // most in flight; 0 = unlimited
	QueueCapacity    int  // most that wait; when unlimited, most that are held for a container that does not listen
	HardConcurrency  bool // a slot outlives its client until the container is done

	// QueueRefusalStatus is the status of a request that the queue rejects, 503 or
	// 429; 0 = 503.
	QueueRefusalStatus int
	// UnlimitedPaths are served without a slot and without the queue, at most
	// UnlimitedCapacity requests at once; further requests get the same rejection as with
	// a full queue. Observers are told (Record.Unlimited). 0 = DefaultUnlimitedCapacity.
	UnlimitedPaths    []PathPattern
	UnlimitedCapacity int

	Overload OverloadConfig

	QueueMaxWait         time.Duration
	RequestTimeout       time.Duration // from arrival to the end of the answer
	ResponseStartTimeout time.Duration // from arrival to the first byte of an answer, 1xx included
	IdleTimeout          time.Duration // without a byte in either direction
	TunnelMax            time.Duration // longest life of a tunnel
	UpstreamWait         time.Duration // how long a request is held at start-up
	UpstreamRestartWait  time.Duration // the same once the container has listened

	ServerTiming bool // responses get Server-Timing with the times of the exchange
	RequestStart bool // requests get X-Request-Start with the instant of their arrival

	AnswerHalfClosed bool // a client's FIN does not mean that it left
	TLSOnly          bool // traffic without TLS is refused; probes are answered

	// HeadMemory is how many bytes request heads beyond 8 KiB each may take, all
	// together; 0 = 16 MiB.
	HeadMemory int64

	// TrustedSources are believed in what they say of themselves and of others:
	// probes, K-Proxy-Request, K-Original-Host, X-Forwarded-*, Forwarded. The
	// loopback always is. Empty = all peers.
	TrustedSources []netip.Prefix

	DrainQuiet  time.Duration // how long a drain goes on without a request
	DrainTunnel time.Duration // how long tunnels may go on after that

	Admission   *admission.Controller // set if other components need it before Init, with the same limits; nil: Init creates it
	Descriptors *Descriptors          // nil: derived from the descriptor limit of the process
	Readiness   gate.Readiness        // nil: always ready
	Observer    gate.Observer         // nil: none
	Contact     Contact               // nil: none

	Jitter func() float64 // from -1 to 1, for attempts to connect; nil: random
	Clock  Clock          // of the drain and of Descriptors; nil: the system's
}

// Gate is the state that all engines share: admission, drain, readiness,
// observation. Its user fills in the Config, which is read-only from Init on.
type Gate struct {
	Config
	Drain    *Drain
	Connects ConnectQueue
	Replays  atomic.Int64 // requests that were sent again
	Heads    *Budget      // of HeadMemory bytes
	Bodies   *Budget      // buffers of bodies beyond a small one each

	overload  *overload  // nil = nothing of it is configured
	unlimited *unlimited // nil = there are no UnlimitedPaths
	probes    waitingProbes
}

const (
	// FreeHeadBytes of each head do not count against HeadMemory.
	FreeHeadBytes = 8 << 10
	// DefaultHeadMemory is HeadMemory where none is given.
	DefaultHeadMemory = 16 << 20
	// BodyMemory is what the buffers of bodies may take, all together.
	BodyMemory = 8 << 20
)

// Check returns all that is wrong with c, by the names of its fields.
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
	if s := c.QueueRefusalStatus; s != 0 && s != 503 && s != 429 {
		problems = append(problems, fmt.Errorf("QueueRefusalStatus %d: want 503 or 429", s))
	}
	if c.UnlimitedCapacity < 0 {
		problems = append(problems, fmt.Errorf("UnlimitedCapacity %d: want 0 or more", c.UnlimitedCapacity))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"QueueMaxWait", c.QueueMaxWait}, {"RequestTimeout", c.RequestTimeout},
		{"ResponseStartTimeout", c.ResponseStartTimeout}, {"IdleTimeout", c.IdleTimeout},
		{"TunnelMax", c.TunnelMax}, {"UpstreamWait", c.UpstreamWait},
		{"UpstreamRestartWait", c.UpstreamRestartWait}, {"DrainQuiet", c.DrainQuiet}, {"DrainTunnel", c.DrainTunnel},
	} {
		if d.value < 0 {
			problems = append(problems, fmt.Errorf("%s %s: want 0 or more", d.name, d.value))
		}
	}
	return errors.Join(problems...)
}

// Init checks the Config, fills in what it leaves open, and makes the rest of
// the gate. It is called once, before anything else of the gate is used. All
// problems are reported together.
func (g *Gate) Init() error {
	if err := g.Check(); err != nil {
		return err
	}
	g.HeadMemory = cmp.Or(g.HeadMemory, DefaultHeadMemory)
	for _, d := range []*time.Duration{
		&g.QueueMaxWait, &g.RequestTimeout, &g.ResponseStartTimeout, &g.IdleTimeout, &g.TunnelMax,
		&g.UpstreamWait, &g.UpstreamRestartWait, &g.DrainQuiet, &g.DrainTunnel,
	} {
		*d = min(*d, maxTimeout)
	}
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
	g.overload = newOverload(g)
	g.unlimited = newUnlimited(&g.Config)
	return nil
}

// Trusts reports whether peer is one of the TrustedSources.
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

// alwaysReady is the readiness of a gate that has nothing to check.
type alwaysReady struct{}

func (alwaysReady) Try(gate.Caller) (gate.ReadinessResult, bool) {
	return gate.ReadinessResult{Ready: true}, true
}

func (alwaysReady) Await(_ gate.Caller, notify func(gate.ReadinessResult)) (cancel func()) {
	notify(gate.ReadinessResult{Ready: true})
	return func() {}
}

// AdmissionStats is the state of the gate's admission, and whether it drains.
func (g *Gate) AdmissionStats() gate.AdmissionStats {
	s := g.Admission.Stats()
	s.Draining = g.Drain.Active()
	return s
}
