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

// Identity names the pod to the autoscaler and in the labels of metrics. Any
// part may be empty; an empty Pod is the host's name.
type Identity = metrics.Identity

// Config is read once, by New. The zero value admits everything at once, and
// counts it.
type Config struct {
	// ConcurrencyLimit is the most requests in flight at once, up to 1<<20,
	// over all handlers of the gate. 0 = unlimited.
	ConcurrencyLimit int
	// QueueCapacity is the most requests that wait for a slot, up to 1<<24.
	// 0 = no request waits; the sidecar's default is ten times its limit.
	QueueCapacity int
	// QueueMaxWait is the longest wait in the queue, refused with 503 beyond
	// it. 0 = no bound.
	QueueMaxWait time.Duration
	// RequestTimeout is how long a request may take from its arrival, the wait
	// in the queue included. In the queue it ends with 504. In the handler its
	// context ends with context.DeadlineExceeded, and the answer is 504 if the
	// handler returns without having written a head; whatever the handler has
	// written stays as it is. 0 = no bound.
	RequestTimeout time.Duration
	// DrainQuiet is how long Drain waits without an arrival: until routers have
	// noticed. 0 = Drain returns as soon as nothing is open.
	DrainQuiet time.Duration

	// Ready answers readiness probes: nil is ready, any error is not. It is
	// called when the platform asks, once for all who ask at the same time, and
	// away from any request. A yes is used for 1 s, a no for 100 ms. Its
	// context ends after 10 s, which are also the longest that a caller waits
	// (kubelets: 900 ms). A panic is a no. The error's text goes nowhere.
	// nil = always ready.
	Ready func(context.Context) error

	// Uncounted are paths, compared exactly with the decoded path of the
	// request, that are served like all others but not counted, neither for the
	// autoscaler nor in metrics of requests: health checks of your own.
	Uncounted []string

	// TrustedSources are the peers whose probe headers, user agents,
	// K-Proxy-Request, K-Original-Host, X-Forwarded-*, Forwarded, X-Real-IP and
	// Knative-Serving-* (also spelled with _ for -) are believed, always with
	// loopback. A request of any other peer, one on a Unix socket for instance, is
	// traffic and reaches the handler without these fields. Empty = everybody, as
	// Knative.
	TrustedSources []netip.Prefix

	// Identity is what the figures are labelled with.
	Identity Identity
	// MetricsNames chooses Knative's names on the Prometheus page: "current",
	// which the empty string stands for, "legacy" or "both".
	MetricsNames string
}

// shared is what the gate of the request path takes of c.
func (c *Config) shared() exchange.Config {
	return exchange.Config{
		ConcurrencyLimit: c.ConcurrencyLimit, QueueCapacity: c.QueueCapacity, QueueMaxWait: c.QueueMaxWait,
		RequestTimeout: c.RequestTimeout, DrainQuiet: c.DrainQuiet, TrustedSources: c.TrustedSources,
	}
}

// check returns all that is wrong with c, by the names of its fields, and the
// generation of names that it asks for.
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

// complete fills in what has a default, and parts from what the caller may
// change.
func (c *Config) complete() {
	c.Uncounted, c.TrustedSources = slices.Clone(c.Uncounted), slices.Clone(c.TrustedSources)
	if c.Identity.Pod == "" {
		c.Identity.Pod, _ = os.Hostname() // without one, the label is empty
	}
}
