package gate

// Outcome says how a request ended. Its name (String) is the value of the
// K-Gate-Outcome header, of the metric label and of the request log.
type Outcome uint8

// The outcomes. Served and Tunnelled are the container's own answers; the
// others were decided here.
const (
	Served               Outcome = iota // answered by the container, whatever the status
	Tunnelled                           // switched protocols and ended
	Probed                              // a probe, answered here
	BadRequest                          // malformed, ambiguous or beyond what HTTP allows
	TargetTooLong                       // the request target alone is beyond the limit
	HeadTooLarge                        // head beyond 1 MiB or 4,096 fields
	ExpectationFailed                   // an expectation other than 100-continue
	MethodNotAllowed                    // CONNECT
	CodingNotImplemented                // a transfer coding other than chunked
	VersionNotSupported                 // neither HTTP/1.x nor HTTP/2
	HeadTimeout                         // the head did not arrive in time
	QueueFull                           // queue capacity reached
	QueueWaitExpired                    // waited longer than allowed
	DeadlineExceeded                    // the time that the client gives it is too short, or over, before it was begun
	RequestTimeout                      // the request clock ran out
	ResponseStartTimeout                // the response start clock ran out
	IdleTimeout                         // the idle clock ran out
	ClientGone                          // the client left before the end
	UpstreamNotListening                // no connection in time
	UpstreamClosed                      // closed before an answer
	UpstreamReset                       // reset before an answer
	UpstreamMalformed                   // an answer that is not HTTP
	UpstreamBrokeOff                    // ended in the middle of the answer
	ProbeRejected                       // a probe that asks for something unknown
	ShuttingDown                        // draining
	NotReady                            // a readiness probe, answered no
	InternalError                       // a panic, contained
	PlaintextRefused                    // traffic without TLS where only TLS is served
	UpstreamTLSFailed                   // the container accepted a connection, but no TLS session came about
	OutOfMemoryBudget                   // the head needs more memory than all heads together have left
	outcomeCount
)

// Level is how loudly an outcome is logged.
type Level uint8

// The levels that outcomes use.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Meaning describes an Outcome to every consumer: the answer on the wire, the
// metric label, the log level.
type Meaning struct {
	Name   string
	Status int    // of the answer, or the one that logs and metrics show
	Body   string // fixed text; nothing internal leaks
	Plain  bool   // sent as a plain error (nosniff, newline)
	Retry  bool   // carries Retry-After
	GRPC   int    // status of a gRPC call; 14 (UNAVAILABLE) only if nothing of it reached the container
	Level  Level
}

var meanings = [outcomeCount]Meaning{
	Served:               {Name: "served", Level: Debug},
	Tunnelled:            {Name: "tunnelled", Status: 101, Level: Debug},
	Probed:               {Name: "probed", Status: 200, Level: Debug},
	BadRequest:           {Name: "bad-request", Status: 400, Body: "bad request", Plain: true, GRPC: 13, Level: Debug},
	TargetTooLong:        {Name: "target-too-long", Status: 414, Body: "request target too long", Plain: true, GRPC: 13, Level: Debug},
	HeadTooLarge:         {Name: "head-too-large", Status: 431, Body: "request head too large", Plain: true, GRPC: 8, Level: Debug},
	ExpectationFailed:    {Name: "expectation-failed", Status: 417, Body: "unknown expectation", Plain: true, GRPC: 13, Level: Debug},
	MethodNotAllowed:     {Name: "method-not-allowed", Status: 405, Body: "method not allowed", Plain: true, GRPC: 12, Level: Debug},
	CodingNotImplemented: {Name: "coding-not-implemented", Status: 501, Body: "unknown transfer coding", Plain: true, GRPC: 12, Level: Debug},
	VersionNotSupported:  {Name: "version-not-supported", Status: 505, Body: "HTTP version not supported", Plain: true, GRPC: 12, Level: Debug},
	HeadTimeout:          {Name: "head-timeout", Status: 408, Body: "request head timeout", Plain: true, GRPC: 4, Level: Debug},
	QueueFull:            {Name: "queue-full", Status: 503, Body: "pending request queue full", Plain: true, Retry: true, GRPC: 8, Level: Warn},
	QueueWaitExpired:     {Name: "queue-wait-expired", Status: 503, Body: "queue wait expired", Plain: true, Retry: true, GRPC: 8, Level: Warn},
	DeadlineExceeded:     {Name: "deadline-exceeded", Status: 504, Body: "deadline exceeded", Plain: true, GRPC: 4, Level: Warn},
	RequestTimeout:       {Name: "request-timeout", Status: 504, Body: "request timeout", GRPC: 4, Level: Warn},
	ResponseStartTimeout: {Name: "response-start-timeout", Status: 504, Body: "request timeout", GRPC: 4, Level: Warn},
	IdleTimeout:          {Name: "idle-timeout", Status: 504, Body: "request timeout", GRPC: 4, Level: Warn},
	ClientGone:           {Name: "client-gone", Status: 499, GRPC: 1, Level: Debug},
	UpstreamNotListening: {Name: "upstream-not-listening", Status: 503, Body: "user container is not listening", Plain: true, Retry: true, GRPC: 14, Level: Warn},
	UpstreamClosed:       {Name: "upstream-closed", Status: 502, Body: "upstream closed the connection", Plain: true, GRPC: 13, Level: Warn},
	UpstreamReset:        {Name: "upstream-reset", Status: 502, Body: "upstream reset the connection", Plain: true, GRPC: 13, Level: Warn},
	UpstreamMalformed:    {Name: "upstream-malformed", Status: 502, Body: "malformed answer from upstream", Plain: true, GRPC: 13, Level: Warn},
	UpstreamBrokeOff:     {Name: "upstream-broke-off", Status: 502, Body: "upstream broke off", Plain: true, GRPC: 13, Level: Warn},
	ProbeRejected:        {Name: "probe-rejected", Status: 400, Plain: true, GRPC: 13, Level: Debug},
	ShuttingDown:         {Name: "shutting-down", Status: 503, Body: "shutting down", Plain: true, GRPC: 14, Level: Debug},
	NotReady:             {Name: "not-ready", Status: 503, GRPC: 14, Level: Debug},
	InternalError:        {Name: "internal-error", Status: 500, Body: "internal error", Plain: true, GRPC: 13, Level: Error},
	PlaintextRefused:     {Name: "plaintext-refused", Status: 403, Body: "only TLS is served here", Plain: true, GRPC: 7, Level: Debug},
	OutOfMemoryBudget:    {Name: "out-of-memory-budget", Status: 503, Body: "out of buffer memory", Plain: true, Retry: true, GRPC: 8, Level: Warn},
	UpstreamTLSFailed:    {Name: "upstream-tls-failed", Status: 502, Body: "TLS to upstream failed", Plain: true, GRPC: 14, Level: Warn},
}

// Meaning maps an outcome to all that is said about it. It is the only place
// that does.
func (o Outcome) Meaning() *Meaning { return &meanings[o] }

// String is the outcome's name on the wire and in labels.
func (o Outcome) String() string { return meanings[o].Name }

// Outcomes lists every outcome, for those who zero-initialise metrics.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomeCount)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// OutcomeNames are the names of all outcomes, in their order.
func OutcomeNames() []string {
	names := make([]string, outcomeCount)
	for i := range names {
		names[i] = Outcome(i).String()
	}
	return names
}
