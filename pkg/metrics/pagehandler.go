package metrics

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many pages are made at once; more get 503.
const maxScrapes = 4

// PageHandler serves /metrics to Prometheus: what c shows, the Go runtime and
// the process. Any other path is 404. Metrics that cannot be read are left out,
// and failed, which may be nil, gets the error.
//
// The format is text 0.0.4, OpenMetrics or protobuf, as the scraper asks. The
// last two have exemplars.
//
// The registry is made for the first scrape: a gate without scrapers does not
// pay for it.
func PageHandler(c *Collector, failed func(error)) http.Handler {
	page := sync.OnceValue(func() http.Handler { return newPage(c, failed) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		page().ServeHTTP(w, r)
	})
}

func newPage(c *Collector, failed func(error)) http.Handler {
	opts := promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		DisableCompression:  true, // gzip keeps 2 MiB in the process from its first use on
	}
	if failed != nil {
		opts.ErrorLog = errorLog(failed)
	}
	made := promhttp.HandlerFor(newRegistry(c), opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := finished{header: w.Header(), status: http.StatusOK}
		made.ServeHTTP(&p, r)
		w.WriteHeader(p.status)
		_, _ = w.Write(p.body.Bytes())
	})
}

// finished is a rendered page. It is buffered so that a scraper that does not read
// blocks only its own connection, and does not count towards maxScrapes.
type finished struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement http.ResponseWriter.
func (p *finished) Header() http.Header         { return p.header }
func (p *finished) WriteHeader(status int)      { p.status = status }
func (p *finished) Write(b []byte) (int, error) { return p.body.Write(b) }

func newRegistry(c *Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// errorLog hands the errors that promhttp logs to a function.
type errorLog func(error)

// Println is promhttp.Logger.
func (l errorLog) Println(v ...any) {
	for _, x := range v {
		if err, ok := x.(error); ok {
			l(err)
		}
	}
}
