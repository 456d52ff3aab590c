package gate

// Outcome is how a request ended. Its name (String) is used in the K-Gate-Outcome field,
// in metric labels and in the request log. The zero value, Undecided, means that the
// request continues.
type Outcome uint8

// The outcomes; Meaning.Means describes each. With Served and Tunnelled the container
// determined the response; the gate decides the others.
const (
	Undecided Outcome = iota
	Served
	Tunnelled
	Probed
	BadRequest
	TargetTooLong
	HeadTooLarge
	ExpectationFailed
	MethodNotAllowed
	CodingNotImplemented
	VersionNotSupported
	HeadTimeout
	QueueFull
	QueueWaitExpired
	DeadlineExceeded
	RequestTimeout
	ResponseStartTimeout
	IdleTimeout
	ClientGone
	UpstreamNotListening
	UpstreamClosed
	UpstreamReset
	UpstreamMalformed
	UpstreamBrokeOff
	ProbeRejected
	ShuttingDown
	NotReady
	InternalError
	PlaintextRejected
	UpstreamTLSFailed
	OutOfMemoryBudget
	Evicted
	WaitingPage
	NotEventStream
	outcomeCount
)

// Level is the level at which an outcome is logged.
type Level uint8

// The levels that outcomes use.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Meaning holds the properties of an Outcome: its name and description, and how local
// replies, logs and metrics represent it.
type Meaning struct {
	Name  string
	Means string // one line for the documentation
	Class Class
	// Status is the status of the local reply. If no reply is sent, logs and metrics show
	// it as the status of the request.
	Status int
	Body   string // fixed text without internal details
	Plain  bool   // sent as by http.Error: with nosniff, and a newline after Body
	Retry  bool   // the local reply has Retry-After
	// GRPC is the gRPC status of the local reply. Clients may retry a call that gets 14
	// (UNAVAILABLE), so 14 is used only if no part of the call reached the container.
	GRPC  int
	Level Level

	ProxyError string // error type of Proxy-Status (RFC 9209 section 2.3); empty if none fits

	// ProbeReply means that only probes end with this outcome. The reply to a probe is an
	// HTTP response, never a gRPC status.
	ProbeReply bool
	// QueueRetry means that the request was rejected for lack of a slot. Its Retry-After
	// may be an estimate, and QUEUE_REFUSAL_STATUS, if set, replaces Status.
	QueueRetry bool
	// ByUpstream means that the container ended the request. The status of a gRPC call
	// then depends on the container's reset code and on the client's deadline, and is
	// GRPC only if neither applies.
	ByUpstream bool
	// Overload means that the outcome indicates an overloaded container. The adaptive
	// limit counts such requests as failures.
	Overload bool
	// BlockedWindow means that over HTTP/2 the cause may be a client that keeps its
	// flow-control windows closed.
	BlockedWindow bool
}

var meanings = [outcomeCount]Meaning{
	Undecided:            {Name: "undecided", Means: "the request has not ended; never reported", Level: Debug},
	Served:               {Name: "served", Means: "a response of the container, whatever its status", Class: ClassSucceeded, Level: Debug},
	Tunnelled:            {Name: "tunnelled", Means: "switched protocols and ended", Class: ClassSucceeded, Status: 101, Level: Debug},
	Probed:               {Name: "probed", Means: "a probe, answered by the gate", Class: ClassSucceeded, Status: 200, Level: Debug, ProbeReply: true},
	BadRequest:           {Name: "bad-request", Means: "a malformed or ambiguous request", Class: ClassClientError, Status: 400, Body: "bad request", Plain: true, ProxyError: "http_request_error", GRPC: 13, Level: Debug},
	TargetTooLong:        {Name: "target-too-long", Means: "the request target alone exceeds the limit of a head", Class: ClassClientError, Status: 414, Body: "request target too long", Plain: true, ProxyError: "http_request_error", GRPC: 13, Level: Debug},
	HeadTooLarge:         {Name: "head-too-large", Means: "a head above 1 MiB or 4,096 fields", Class: ClassClientError, Status: 431, Body: "request head too large", Plain: true, ProxyError: "http_request_error", GRPC: 8, Level: Debug},
	ExpectationFailed:    {Name: "expectation-failed", Means: "an expectation other than 100-continue", Class: ClassClientError, Status: 417, Body: "unknown expectation", Plain: true, ProxyError: "http_request_error", GRPC: 13, Level: Debug},
	MethodNotAllowed:     {Name: "method-not-allowed", Means: "CONNECT", Class: ClassClientError, Status: 405, Body: "method not allowed", Plain: true, ProxyError: "http_request_error", GRPC: 12, Level: Debug},
	CodingNotImplemented: {Name: "coding-not-implemented", Means: "a transfer coding other than chunked", Class: ClassClientError, Status: 501, Body: "unknown transfer coding", Plain: true, ProxyError: "proxy_internal_response", GRPC: 12, Level: Debug},
	VersionNotSupported:  {Name: "version-not-supported", Means: "neither HTTP/1.x nor HTTP/2", Class: ClassClientError, Status: 505, Body: "HTTP version not supported", Plain: true, ProxyError: "proxy_internal_response", GRPC: 12, Level: Debug},
	HeadTimeout:          {Name: "head-timeout", Means: "the head did not arrive in time", Class: ClassClientError, Status: 408, Body: "request head timeout", Plain: true, ProxyError: "http_request_error", GRPC: 4, Level: Debug},
	QueueFull:            {Name: "queue-full", Means: "queue capacity reached", Class: ClassRejected, Status: 503, Body: "pending request queue full", Plain: true, Retry: true, ProxyError: "connection_limit_reached", GRPC: 8, Level: Warn, QueueRetry: true},
	QueueWaitExpired:     {Name: "queue-wait-expired", Means: "queued longer than allowed", Class: ClassRejected, Status: 503, Body: "queue wait expired", Plain: true, Retry: true, ProxyError: "connection_limit_reached", GRPC: 8, Level: Warn, QueueRetry: true},
	DeadlineExceeded:     {Name: "deadline-exceeded", Means: "the client's deadline leaves too little time, or has passed, before the request started", Class: ClassRejected, Status: 504, Body: "deadline exceeded", Plain: true, ProxyError: "http_request_denied", GRPC: 4, Level: Warn},
	RequestTimeout:       {Name: "request-timeout", Means: "the request timeout expired", Class: ClassFailed, Status: 504, Body: "request timeout", ProxyError: "http_response_timeout", GRPC: 4, Level: Warn, Overload: true, BlockedWindow: true},
	ResponseStartTimeout: {Name: "response-start-timeout", Means: "the response-start timeout expired", Class: ClassFailed, Status: 504, Body: "request timeout", ProxyError: "connection_read_timeout", GRPC: 4, Level: Warn, Overload: true},
	IdleTimeout:          {Name: "idle-timeout", Means: "the idle timeout expired", Class: ClassFailed, Status: 504, Body: "request timeout", ProxyError: "connection_read_timeout", GRPC: 4, Level: Warn, BlockedWindow: true},
	ClientGone:           {Name: "client-gone", Means: "the client disconnected before the end", Class: ClassClientError, Status: 499, GRPC: 1, Level: Debug},
	UpstreamNotListening: {Name: "upstream-not-listening", Means: "the container did not listen in time", Class: ClassFailed, Status: 503, Body: "user container is not listening", Plain: true, Retry: true, ProxyError: "connection_refused", GRPC: 14, Level: Warn},
	UpstreamClosed:       {Name: "upstream-closed", Means: "the container closed the connection before a response", Class: ClassFailed, Status: 502, Body: "upstream closed the connection", Plain: true, ProxyError: "connection_terminated", GRPC: 13, Level: Warn, ByUpstream: true, Overload: true},
	UpstreamReset:        {Name: "upstream-reset", Means: "the container reset the connection before a response", Class: ClassFailed, Status: 502, Body: "upstream reset the connection", Plain: true, ProxyError: "connection_terminated", GRPC: 13, Level: Warn, ByUpstream: true, Overload: true},
	UpstreamMalformed:    {Name: "upstream-malformed", Means: "a response that is not HTTP", Class: ClassFailed, Status: 502, Body: "malformed answer from upstream", Plain: true, ProxyError: "http_protocol_error", GRPC: 13, Level: Warn},
	UpstreamBrokeOff:     {Name: "upstream-broke-off", Means: "the container's connection ended within the response", Class: ClassFailed, Status: 502, Body: "upstream broke off", Plain: true, ProxyError: "http_response_incomplete", GRPC: 13, Level: Warn, ByUpstream: true, Overload: true},
	ProbeRejected:        {Name: "probe-rejected", Means: "a probe with an unknown value", Class: ClassClientError, Status: 400, Plain: true, ProxyError: "http_request_error", GRPC: 13, Level: Debug, ProbeReply: true},
	ShuttingDown:         {Name: "shutting-down", Means: "the gate is shutting down", Class: ClassRejected, Status: 503, Body: "shutting down", Plain: true, ProxyError: "proxy_internal_response", GRPC: 14, Level: Debug, ProbeReply: true},
	NotReady:             {Name: "not-ready", Means: "a readiness probe while the container is not ready", Class: ClassRejected, Status: 503, ProxyError: "destination_unavailable", GRPC: 14, Level: Debug, ProbeReply: true},
	InternalError:        {Name: "internal-error", Means: "a recovered panic", Class: ClassFailed, Status: 500, Body: "internal error", Plain: true, ProxyError: "proxy_internal_error", GRPC: 13, Level: Error},
	PlaintextRejected:    {Name: "plaintext-refused", Means: "traffic without TLS although only TLS is allowed", Class: ClassClientError, Status: 403, Body: "only TLS is served here", Plain: true, ProxyError: "http_request_denied", GRPC: 7, Level: Debug},
	OutOfMemoryBudget:    {Name: "out-of-memory-budget", Means: "the memory budget for request heads is exhausted", Class: ClassRejected, Status: 503, Body: "out of buffer memory", Plain: true, Retry: true, ProxyError: "proxy_internal_response", GRPC: 8, Level: Warn},
	UpstreamTLSFailed:    {Name: "upstream-tls-failed", Means: "the container accepted a connection, but the TLS handshake failed", Class: ClassFailed, Status: 502, Body: "TLS to upstream failed", Plain: true, ProxyError: "tls_protocol_error", GRPC: 14, Level: Warn},
	Evicted:              {Name: "evicted", Means: "ended in flight, because a queued request of a higher class needed its slot", Class: ClassRejected, Status: 503, Body: "evicted by a request of a higher priority", Plain: true, Retry: true, ProxyError: "connection_limit_reached", GRPC: 10, Level: Warn, QueueRetry: true},
	WaitingPage:          {Name: "waiting-page", Means: "a navigation that waited got a page that loads itself again (WAIT_PAGE)", Class: ClassRejected, Status: 503, Retry: true, ProxyError: "proxy_internal_response", GRPC: 8, Level: Debug},
	NotEventStream:       {Name: "not-event-stream", Means: "the container's response could not continue the event stream that the gate had begun (WAIT_KEEPALIVE)", Class: ClassFailed, Status: 502, Body: "upstream did not respond with an event stream", Plain: true, ProxyError: "http_protocol_error", GRPC: 13, Level: Warn},
}

// Meaning returns the properties of the outcome.
func (o Outcome) Meaning() *Meaning { return &meanings[o] }

// proxyStatuses are the values of Proxy-Status by outcome.
var proxyStatuses = func() (values [outcomeCount]string) {
	for o, m := range meanings {
		if m.ProxyError == "" {
			continue
		}
		values[o] = "queuegate; error=" + m.ProxyError
		if m.Body != "" {
			values[o] += `; details="` + m.Body + `"`
		}
	}
	return values
}()

// ProxyStatus returns the value of the Proxy-Status field of a local reply (RFC 9209
// section 2). It is empty for outcomes without an error.
func (o Outcome) ProxyStatus() string { return proxyStatuses[o] }

// String returns the outcome's name in headers and labels.
func (o Outcome) String() string { return meanings[o].Name }

// OutcomeSlots is the length of an array indexed by Outcome.
const OutcomeSlots = int(outcomeCount)

// Outcomes returns all outcomes except Undecided. Metrics use it to create a series with
// the value zero for each.
func Outcomes() []Outcome {
	all := make([]Outcome, 0, outcomeCount-1)
	for o := Undecided + 1; o < outcomeCount; o++ {
		all = append(all, o)
	}
	return all
}

// OutcomeNames returns the names of all outcomes, including Undecided, indexed by
// Outcome.
func OutcomeNames() []string {
	names := make([]string, outcomeCount)
	for i := range names {
		names[i] = Outcome(i).String()
	}
	return names
}
