package gate

import (
	"time"
)

// AdmissionStats is the state of admission at one moment.
type AdmissionStats struct {
	InFlight         int
	QueueDepth       int
	QueueCapacity    int
	ConcurrencyLimit int // 0 = unlimited
	Draining         bool
}

// UpstreamStats is the state of the connections to the user container at one
// moment, and what they did since the start.
type UpstreamStats struct {
	Open, Idle             int
	Dials, Reuses, Retries int64
}

// HTTP2Stats is the state of clients' connections over HTTP/2 at one moment.
type HTTP2Stats struct {
	Connections int // open now
	// Errors counts the faults of peers since the start by kind: what made the
	// gate reset a stream or close a connection. The kinds are few and fixed.
	Errors map[string]int64
}

// TLSStats is what happened on the TLS port since the start.
type TLSStats struct {
	Reloads           uint64    // certificates that replaced another one
	ReloadFailures    uint64    // files that could not be loaded, each once
	NotAfter          time.Time // end of the certificate in use; zero = there is none
	Handshakes        uint64    // that succeeded
	HandshakeFailures uint64
	Handshaking       int // under way
}
