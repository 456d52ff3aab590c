package gate

import (
	"time"
)

// AdmissionStats is the current state of admission.
type AdmissionStats struct {
	InFlight         int
	QueueDepth       int
	QueueCapacity    int
	ConcurrencyLimit int // 0 = unlimited
	CostUnits        int // held by requests in flight
	CostLimit        int // most units held at once; 0 = off
	Draining         bool
}

// EngineStats is the state of a model server according to its metrics, with counters
// since the start.
type EngineStats struct {
	Waiting  float64 // requests in its queue
	KV       float64 // used share of its KV cache
	Silent   bool    // the page has been invalid for so long that the figures are not used
	Pages    uint64  // valid pages
	Failures uint64  // invalid or missing ones
}

// SettingsStats is the current state of the live settings.
type SettingsStats struct {
	Generation uint64 // changes applied since the start
	Error      string // why the latest settings were not applied; empty = they are in force
}

// UpstreamStats is the current state of upstream connections, and counters since the
// start.
type UpstreamStats struct {
	Open, Idle             int
	Dials, Reuses, Retries int64
}

// HTTP2Stats is the current state of HTTP/2 client connections.
type HTTP2Stats struct {
	Connections int // currently open
	// Errors counts violations by peers since the start by kind, which made the gate
	// reset a stream or close a connection. The set of kinds is small and fixed.
	Errors map[string]int64
}

// TLSStats is the state of the TLS port, with counters since the start.
type TLSStats struct {
	Reloads           uint64    // certificates that replaced another one
	ReloadFailures    uint64    // files that could not be loaded, each once
	NotAfter          time.Time // end of validity of the current certificate; zero = none
	Handshakes        uint64    // successful ones
	HandshakeFailures uint64
	Handshaking       int // in progress
}
