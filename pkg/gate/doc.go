// Package gate defines the types that all parts of the gate share: how a request
// ended (Outcome), the log record of a request (Record), the responses that the
// gate generates (Reply), the classification of probes and traffic (Classify),
// container readiness (ReadinessResult), notifications (Observer), the trace
// context, and statistics (Stats types).
//
// It contains no request logic: package exchange forwards requests, and package
// admission decides which may run. It depends on no HTTP library and no sockets.
package gate
