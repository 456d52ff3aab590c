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
	CostUnits        int // cost units held by requests in flight
	CostLimit        int // highest number of cost units held at once; 0 = off
	Draining         bool
}

// EngineStats is the state of a model server according to its metrics page, with counters
// since the start.
type EngineStats struct {
	Waiting  float64 // requests in the queue of the model server
	KV       float64 // used share of the KV cache, from 0 to 1
	Silent   bool    // the page has been invalid for so long that Waiting and KV are ignored
	Pages    uint64  // number of valid pages read
	Failures uint64  // number of pages that were invalid or missing
}

// SettingsStats is the current state of the live settings.
type SettingsStats struct {
	Generation uint64 // number of changes applied since the start
	Error      string // why the latest settings were not applied; empty = they were applied
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
	// Errors is the number of violations since the start, by kind. It includes only
	// violations after which the gate reset a stream or closed a connection. The set of
	// kinds is small and fixed.
	Errors map[string]int64
}

// TLSStats is the state of the TLS port, with counters since the start.
type TLSStats struct {
	Reloads           uint64    // number of times a new certificate replaced the previous one
	ReloadFailures    uint64    // number of files that could not be loaded; each version of a file counts once
	NotAfter          time.Time // end of validity of the current certificate; zero = none
	Handshakes        uint64    // number of successful handshakes
	HandshakeFailures uint64
	Handshaking       int // number of handshakes in progress
}
