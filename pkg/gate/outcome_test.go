package gate

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEveryOutcomeHasAUniqueName(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]Outcome{}
	for _, o := range Outcomes() {
		if !name.MatchString(o.String()) {
			t.Errorf("outcome %d is called %q", o, o)
		}
		if other, taken := seen[o.String()]; taken {
			t.Errorf("outcomes %d and %d are both called %q", other, o, o)
		}
		seen[o.String()] = o
		if o.Meaning().Name != o.String() {
			t.Errorf("outcome %d is called %q and %q", o, o, o.Meaning().Name)
		}
	}
	if len(seen) != int(outcomeCount)-1 || len(seen) < 20 {
		t.Errorf("%d outcomes of %d", len(seen), outcomeCount)
	}
}

func TestOutcomesHaveTheDocumentedStatusesAndBodies(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		status  int
		body    string
		plain   bool
		retry   bool
	}{
		{Tunnelled, 101, "", false, false},
		{Probed, 200, "", false, false},
		{BadRequest, 400, "bad request", true, false},
		{ProbeRejected, 400, "", true, false},
		{MethodNotAllowed, 405, "method not allowed", true, false},
		{HeadTimeout, 408, "request head timeout", true, false},
		{TargetTooLong, 414, "request target too long", true, false},
		{ExpectationFailed, 417, "unknown expectation", true, false},
		{HeadTooLarge, 431, "request head too large", true, false},
		{ClientGone, 499, "", false, false},
		{InternalError, 500, "internal error", true, false},
		{CodingNotImplemented, 501, "unknown transfer coding", true, false},
		{UpstreamClosed, 502, "upstream closed the connection", true, false},
		{UpstreamReset, 502, "upstream reset the connection", true, false},
		{UpstreamMalformed, 502, "malformed answer from upstream", true, false},
		{UpstreamBrokeOff, 502, "upstream broke off", true, false},
		{NotEventStream, 502, "upstream did not respond with an event stream", true, false},
		{WaitingPage, 503, "", false, true},
		{QueueFull, 503, "pending request queue full", true, true},
		{QueueWaitExpired, 503, "queue wait expired", true, true},
		{Evicted, 503, "evicted by a request of a higher priority", true, true},
		{UpstreamNotListening, 503, "user container is not listening", true, true},
		{ShuttingDown, 503, "shutting down", true, false},
		{NotReady, 503, "", false, false},
		{RequestTimeout, 504, "request timeout", false, false},
		{ResponseStartTimeout, 504, "request timeout", false, false},
		{IdleTimeout, 504, "request timeout", false, false},
		{VersionNotSupported, 505, "HTTP version not supported", true, false},
	} {
		m := c.outcome.Meaning()
		if m.Status != c.status || m.Body != c.body || m.Plain != c.plain || m.Retry != c.retry {
			t.Errorf("%v: got %+v", c.outcome, *m)
		}
	}
}

func TestStatusesAreRegisteredAndBodiesAreSingleLines(t *testing.T) {
	for _, o := range Outcomes() {
		m := o.Meaning()
		if strings.ContainsAny(m.Body, "\r\n") || m.Body != strings.TrimSpace(m.Body) {
			t.Errorf("%v: body %q", o, m.Body)
		}
		if o != Served && o != ClientGone && http.StatusText(m.Status) == "" {
			t.Errorf("%v: status %d", o, m.Status)
		}
	}
}

func TestClientMistakesAreNotLoggedAsErrors(t *testing.T) {
	for _, o := range Outcomes() {
		level := o.Meaning().Level
		switch {
		case o == InternalError:
			if level != Error {
				t.Errorf("%v: level %d", o, level)
			}
		case level == Error, o.Meaning().Status < 500 && level != Debug:
			t.Errorf("%v: level %d", o, level)
		}
	}
}

func TestEveryLocalReplyHasAGRPCStatus(t *testing.T) {
	const unavailable = 14
	nothingReached := []Outcome{UpstreamNotListening, ShuttingDown, NotReady, UpstreamTLSFailed}
	for _, o := range Outcomes() {
		code := o.Meaning().GRPC
		switch o {
		case Served, Tunnelled, Probed:
			if code != 0 {
				t.Errorf("%v: status %d, want none", o, code)
			}
			continue
		}
		if code < 1 || code > 16 {
			t.Errorf("%v: status %d is not a gRPC error", o, code)
		}
		if (code == unavailable) != slices.Contains(nothingReached, o) {
			t.Errorf("%v: status %d; %d lets clients retry, and is for calls of which nothing has reached the container", o, code, unavailable)
		}
	}
}

// proxyErrors has the error types that RFC 9209 section 2.3 registers, and for each the
// HTTP status that the RFC recommends. 0 means that it recommends no particular status.
var proxyErrors = map[string]int{
	"dns_timeout": 504, "dns_error": 502, "destination_not_found": 500, "destination_unavailable": 503,
	"destination_ip_prohibited": 502, "destination_ip_unroutable": 502, "connection_refused": 502,
	"connection_terminated": 502, "connection_timeout": 504, "connection_read_timeout": 504,
	"connection_write_timeout": 504, "connection_limit_reached": 503, "tls_protocol_error": 502,
	"tls_certificate_error": 502, "tls_alert_received": 502, "http_request_error": 0, "http_request_denied": 403,
	"http_response_incomplete": 502, "http_response_header_section_size": 502, "http_response_header_size": 502,
	"http_response_body_size": 502, "http_response_trailer_section_size": 502, "http_response_trailer_size": 502,
	"http_response_transfer_coding": 502, "http_response_content_coding": 502, "http_response_timeout": 504,
	"http_upgrade_failed": 502, "http_protocol_error": 502, "proxy_internal_response": 0, "proxy_internal_error": 500,
	"proxy_configuration_error": 500, "proxy_loop_detected": 502,
}

func TestProxyStatusErrorTypesAreThoseOfRFC9209(t *testing.T) {
	otherStatus := map[Outcome]string{
		UpstreamNotListening: "Knative's queue-proxy answers 503, which clients retry",
		DeadlineExceeded:     "the deadline has passed, as for request-timeout",
	}
	for _, o := range Outcomes() {
		m := o.Meaning()
		status, registered := proxyErrors[m.ProxyError]
		switch {
		case o == Served || o == Tunnelled || o == Probed || o == ClientGone: // no error, or no client to read it
			if m.ProxyError != "" {
				t.Errorf("%v: error type %q, want none", o, m.ProxyError)
			}
		case !registered:
			t.Errorf("%v: error type %q is not registered", o, m.ProxyError)
		case m.ProxyError == "http_request_error" && m.Status/100 != 4:
			t.Errorf("%v: http_request_error is for a status of 4xx, not %d (RFC 9209 section 2.3.16)", o, m.Status)
		case (status != 0 && status != m.Status) != (otherStatus[o] != ""):
			t.Errorf("%v: status %d, %s recommends %d", o, m.Status, m.ProxyError, status)
		}
	}
}

func TestTheDocsListTheGRPCStatusOfEachOutcome(t *testing.T) {
	const path = "../../docs/http2.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## gRPC\n")
	section, _, found := strings.Cut(section, "\n## ")
	_, none, ok := strings.Cut(section, "\nNo gRPC call ends with these ")
	if !found || !ok {
		t.Fatalf("%s has no section on gRPC, or no sentence on outcomes without a gRPC status", path)
	}
	none, _, _ = strings.Cut(none, "\n")

	// The regular expression matches a row of the table only if its first cell is a list
	// of outcome names. Other rows have a condition in the first cell, such as
	// "`upstream-reset` after `grpc-timeout`". They are exceptions and are skipped.
	row := regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\| ([0-9]+) [A-Z_]+ \\|")
	name := regexp.MustCompile("`([a-z-]+)`")
	listed := map[string]int{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		for _, n := range name.FindAllStringSubmatch(m[1], -1) {
			if _, twice := listed[n[1]]; twice {
				t.Errorf("%s: %s is in two rows", path, n[1])
			}
			listed[n[1]], _ = strconv.Atoi(m[2])
		}
	}
	for _, o := range Outcomes() {
		status, inTable := listed[o.String()]
		switch want := o.Meaning().GRPC; {
		case inTable && status != want:
			t.Errorf("%s: %v has the status %d, want %d", path, o, status, want)
		case want != 0 && inTable == strings.Contains(none, "`"+o.String()+"`"):
			t.Errorf("%s: %v must be in the table or in the sentence below it, not in both", path, o)
		case inTable && o.Meaning().ProbeReply:
			t.Errorf("%s: %v is the reply to a probe, which has no gRPC status", path, o)
		}
		delete(listed, o.String())
	}
	for name := range listed {
		t.Errorf("%s: there is no outcome %s", path, name)
	}
}
