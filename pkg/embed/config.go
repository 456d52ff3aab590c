package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Identity names the pod to the autoscaler and in metric labels. Any part may be empty;
// an empty Pod is the host name.
type Identity = metrics.Identity

// Config configures a Gate. New reads it once. The zero value admits and counts all
// requests.
type Config struct {
	// ConcurrencyLimit is the maximum number of requests in flight, up to 1<<20, for
	// all handlers of the gate together. 0 = unlimited.
	ConcurrencyLimit int
	// QueueCapacity is the maximum number of queued requests, up to 1<<24. 0 = no
	// queue; the sidecar's default is ten times its limit.
	QueueCapacity int
	// QueueMaxWait is the maximum time in the queue; then the request is rejected with
	// 503. 0 = unlimited.
	QueueMaxWait time.Duration
	// RequestTimeout is the maximum time from the arrival of a request, including the
	// time in the queue. A queued request is rejected with 504. In the handler the
	// request's context ends with context.DeadlineExceeded, and the response is 504 if
	// the handler returns without having written a head; bytes that the handler has
	// written are not changed. 0 = unlimited.
	RequestTimeout time.Duration
	// DrainQuiet is how long Drain waits without a new request, so that routers notice
	// the drain. 0 = Drain returns as soon as no request is open.
	DrainQuiet time.Duration

	// Ready answers readiness probes: nil means ready, an error not ready. It is called
	// on demand, once for concurrent probes, and not on the goroutine of a request. A
	// success is cached for 1 s, a failure for 100 ms. Its context ends after 10 s, the
	// maximum wait of a prober (kubelets: 900 ms). A panic counts as an error. The
	// error's text is not shown. nil = always ready.
	Ready func(context.Context) error

	// Uncounted are paths, compared with the decoded path of the request, that are
	// served like others but not counted, neither for the autoscaler nor in request
	// metrics, such as your own health checks.
	Uncounted []string

	// TrustedSources are the peers whose probe headers, user agents, K-Proxy-Request,
	// K-Original-Host, X-Forwarded-*, Forwarded, X-Real-IP and Knative-Serving-* fields
	// (also with _ for -) are accepted; loopback is always trusted. A request of any
	// other peer, such as one on a Unix socket, is traffic and reaches the handler
	// without these fields. Empty = all peers, as in Knative.
	TrustedSources []netip.Prefix

	// Identity is used in labels.
	Identity Identity
	// MetricsNames selects Knative's metric names on the Prometheus page: "current"
	// (also for ""), "legacy" or "both".
	MetricsNames string
}

// shared returns the configuration of the exchange package.
func (c *Config) shared() exchange.Config {
	return exchange.Config{
		ConcurrencyLimit: c.ConcurrencyLimit, QueueCapacity: c.QueueCapacity, QueueMaxWait: c.QueueMaxWait,
		RequestTimeout: c.RequestTimeout, DrainQuiet: c.DrainQuiet, TrustedSources: c.TrustedSources,
	}
}

// check returns all problems of c, by field names, and the metric names that it
// selects.
func (c *Config) check() (metrics.Names, error) {
	shared := c.shared()
	problems := []error{shared.Check()}
	wrong := func(format string, a ...any) { problems = append(problems, fmt.Errorf(format, a...)) }
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
	return names, errors.Join(problems...)
}

// complete sets defaults and copies slices that the caller may change.
func (c *Config) complete() {
	c.Uncounted, c.TrustedSources = slices.Clone(c.Uncounted), slices.Clone(c.TrustedSources)
	if c.Identity.Pod == "" {
		c.Identity.Pod, _ = os.Hostname() // the label is empty without a host name
	}
}
