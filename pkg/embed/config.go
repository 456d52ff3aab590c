package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Identity names the pod to the autoscaler and in metric labels. Any field may be
// empty. An empty Pod is replaced by the host name.
type Identity = metrics.Identity

// Config configures a Gate. New reads it once. The zero value admits and counts all
// requests.
type Config struct {
	// ConcurrencyLimit is the maximum number of requests in flight, up to 1<<20, for
	// all handlers of the gate together. 0 = unlimited.
	ConcurrencyLimit int
	// Concurrency is an alternative to ConcurrencyLimit; set only one of them. It is a
	// whole number, "auto" or "auto:MIN-MAX", as in the sidecar's CONTAINER_CONCURRENCY.
	// With auto, the gate adapts the limit: it looks for the highest limit at which the
	// latency hardly rises. The limit is from 1 to 1000 with "auto", and from MIN to MAX
	// with "auto:MIN-MAX".
	Concurrency string
	// QueueCapacity is the maximum number of queued requests, up to 1<<24. With a fixed
	// limit, 0 means that there is no queue. With Concurrency "auto", 0 means that the
	// queue capacity is ten times the current limit. The gate then also rejects the
	// oldest requests of a queue that has stopped draining, unless QueueFairBy or
	// QueuePriorityBy is set.
	QueueCapacity int
	// QueueMaxWait is the maximum time in the queue, after which a request is rejected
	// with 503. 0 = unlimited.
	QueueMaxWait time.Duration
	// QueueFairBy selects the key of a request: "header:NAME", "peer", or "path:N" for
	// the Nth segment of the path. Queued requests with different keys share the slots
	// fairly. If the queue is full, the gate determines the key with the most queued
	// requests, and rejects the newest request with this key. Requests of an untrusted
	// peer have its address as their key, or its /64 for IPv6. Empty = FIFO.
	QueueFairBy string
	// QueuePriorityBy is "header:NAME", the field with the priority class of a request.
	// The class is from 0 (served first) to 7 (served last), as a plain number or as the
	// urgency u of RFC 9218. Requests without a valid field and requests of untrusted
	// peers have class 3. Empty = no classes.
	QueuePriorityBy string
	// QueueDeadlineBy is "header:NAME" or "header:NAME:ms", the field with the client's
	// timeout, such as header:grpc-timeout. A request that cannot be served in that
	// time is rejected with 504. A plain number is in milliseconds with :ms or if NAME
	// ends in -ms, otherwise in seconds. The field is ignored from untrusted peers.
	// Empty = none.
	QueueDeadlineBy string
	// QueueRetryAfter selects the Retry-After of the reply to a request that the queue
	// rejects. With "1" or "", the value is one second. With "measured", the value is the
	// estimated time that the queue needs to drain.
	QueueRetryAfter string
	// QueueRefusalStatus is the status of a request that the queue rejects: 503 or 429.
	// 0 = 503.
	QueueRefusalStatus int
	// RequestTimeout is the maximum time from the arrival of a request to the end of its
	// handler. A request that is still queued at that time is rejected with 504. If the
	// handler is running, its context ends with context.DeadlineExceeded. If the handler
	// then returns without a response, the gate sends 504. 0 = unlimited.
	RequestTimeout time.Duration
	// DrainQuiet is the time without new requests for which Drain waits before it
	// returns, so that routers notice the drain. A request that begins or ends restarts
	// this time. 0 = Drain returns as soon as no request is queued or in a handler.
	DrainQuiet time.Duration

	// Ready returns nil if the application is ready. The gate calls it for probes, at
	// most once at a time, with a timeout of 10 s. A success is cached for 1 s, a
	// failure for 100 ms. A prober waits at most 10 s, a kubelet 900 ms. A panic counts
	// as an error. Probers do not get the text of the error. nil = always ready.
	Ready func(context.Context) error

	// Uncounted lists decoded paths, for example the paths of your health checks.
	// Requests for these paths are not counted for the autoscaler and in request metrics.
	Uncounted []string

	// TrustedSources are the peers that the gate trusts. Loopback peers are always
	// trusted; peers on a Unix socket are not. Empty = all peers are trusted, as in
	// Knative. A probe from an untrusted peer counts as traffic. From the requests of an
	// untrusted peer, the gate removes K-Proxy-Request, K-Original-Host, X-Forwarded-*,
	// Forwarded, X-Real-IP, X-Request-Start and Knative-Serving-*, also if the name
	// contains _ instead of -.
	TrustedSources []netip.Prefix

	// Logger logs the end of each request, failed readiness checks and the stages of
	// the drain. The level depends on the outcome: debug for success, warn for a
	// rejection. nil = no log.
	Logger *slog.Logger
	// RequestEnded is called at the end of each counted request, on the goroutine of
	// the request. It must not block or panic. nil = not called.
	RequestEnded func(Request)

	// Identity is used in labels.
	Identity Identity
	// MetricsNames selects Knative's metric names on the Prometheus page: "current",
	// "legacy" or "both". Empty = "current".
	MetricsNames string
}

// queuePerSlot is the default queue capacity per slot of the adaptive limit.
const queuePerSlot = 10

// check validates c and converts it for package core. The error lists all problems of c
// with their field names.
func (c *Config) check() (core.Config, error) {
	shared := exchange.Config{
		ConcurrencyLimit: c.ConcurrencyLimit, QueueCapacity: c.QueueCapacity, QueueMaxWait: c.QueueMaxWait,
		QueueRefusalStatus: c.QueueRefusalStatus, RequestTimeout: c.RequestTimeout, DrainQuiet: c.DrainQuiet,
		TrustedSources: slices.Clone(c.TrustedSources),
	}
	problems := []error{shared.Check()}
	wrong := func(format string, a ...any) { problems = append(problems, fmt.Errorf(format, a...)) }
	if c.Concurrency != "" {
		limit, auto, err := parseConcurrency(c.Concurrency)
		switch {
		case err != nil:
			wrong("Concurrency %q: want a whole number from 0 to %d, auto, or auto:MIN-MAX", c.Concurrency, admission.MaxLimit)
		case c.ConcurrencyLimit != 0:
			wrong("Concurrency %q: want one of Concurrency and ConcurrencyLimit, which is %d", c.Concurrency, c.ConcurrencyLimit)
		}
		shared.ConcurrencyLimit, shared.Overload.AutoLimit = limit, auto
		if auto != nil && c.QueueCapacity == 0 {
			shared.Overload.QueuePerSlot = queuePerSlot
		}
	}
	for _, by := range []struct {
		name, value, wants, prefix string
		parse                      func(string) (exchange.Selector, error)
		to                         *exchange.Selector
	}{
		{"QueueFairBy", c.QueueFairBy, "header:NAME, peer or path:N", "", exchange.ParseSelector, &shared.Overload.FairBy},
		{"QueuePriorityBy", c.QueuePriorityBy, "header:NAME", "header:", exchange.ParseSelector, &shared.Overload.PriorityBy},
		{"QueueDeadlineBy", c.QueueDeadlineBy, "header:NAME or header:NAME:ms", "header:", exchange.ParseTimeoutSelector, &shared.Overload.DeadlineBy},
	} {
		if by.value == "" {
			continue
		}
		selector, err := by.parse(by.value)
		if err != nil || !strings.HasPrefix(by.value, by.prefix) {
			wrong("%s %q: want %s", by.name, by.value, by.wants)
		}
		*by.to = selector
	}
	switch c.QueueRetryAfter {
	case "", "1":
	case "measured":
		shared.Overload.MeasuredRetry = true
	default:
		wrong("QueueRetryAfter %q: want 1 or measured", c.QueueRetryAfter)
	}
	for _, path := range c.Uncounted {
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "?") {
			wrong("Uncounted %q: want a path that begins with a slash and has no query", path)
		}
	}
	for _, p := range c.TrustedSources {
		if !p.IsValid() || p.Addr().Is4In6() {
			wrong("TrustedSources %s: want a valid prefix, one of IPv4 as such", p)
		}
	}
	names, err := metrics.ParseNames(cmp.Or(c.MetricsNames, "current"))
	if err != nil {
		wrong("MetricsNames: %w", err)
	}
	identity := c.Identity
	if identity.Pod == "" {
		identity.Pod, _ = os.Hostname() // the label may be empty
	}
	return core.Config{
		Exchange: shared, Names: names, Identity: identity, Uncounted: slices.Clone(c.Uncounted), RequestEnded: c.requestEndedFunc(),
	}, errors.Join(problems...)
}

// parseConcurrency parses Config.Concurrency. If the limit is fixed, the result auto is
// nil. Otherwise auto is the range of the adaptive limit.
func parseConcurrency(text string) (limit int, auto *admission.LimitRange, err error) {
	limits, adaptive := strings.CutPrefix(text, "auto")
	if !adaptive {
		n, err := strconv.ParseUint(text, 10, 64)
		if err == nil && n > admission.MaxLimit {
			err = strconv.ErrRange
		}
		return int(n), nil, err
	}
	r := admission.DefaultLimitRange
	if limits != "" {
		limits, colon := strings.CutPrefix(limits, ":")
		if !colon {
			return 0, nil, strconv.ErrSyntax
		}
		r, err = admission.ParseLimitRange(limits)
	}
	return 0, &r, err
}
