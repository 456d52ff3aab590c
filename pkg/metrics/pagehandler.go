package metrics

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is the limit of concurrent scrapes for each of two handlers: with and without
// the metrics go_ and process_. Further scrapes get 503.
const maxScrapes = 4

// PageHandler serves /metrics: the metrics of c, of the Go runtime and of the process.
// Other paths get status 404. If a metric cannot be read, PageHandler omits the metric
// and passes the error to the function failed, unless the function is nil.
//
// The format is text 0.0.4, OpenMetrics or protobuf, as the scraper requests.
// OpenMetrics and protobuf contain exemplars. Query parameters name[] restrict the page to
// the metrics with these names.
//
// The first scrape creates the registry, so that an unscraped gate needs no memory for
// it.
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
		DisableCompression:  true, // the first use of gzip allocates 2 MiB permanently
	}
	if failed != nil {
		opts.ErrorLog = errorLog(failed)
	}
	own := prometheus.NewRegistry()
	own.MustRegister(c)
	ownPage, wholePage := promhttp.HandlerFor(own, opts), promhttp.HandlerFor(newRegistry(c), opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := bufferedResponse{header: w.Header(), status: http.StatusOK}
		if names := r.URL.Query()["name[]"]; len(names) > 0 && !slices.ContainsFunc(names, isProcessMetric) {
			ownPage.ServeHTTP(&p, r)
		} else {
			wholePage.ServeHTTP(&p, r)
		}
		w.WriteHeader(p.status)
		_, _ = w.Write(p.body.Bytes())
	})
}

// isProcessMetric reports whether name is a metric of the Go runtime or of the process.
// These metrics together cost more CPU time than all others, because some are read from
// /proc.
func isProcessMetric(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
}

// bufferedResponse holds a complete page in memory. The scrape ends before the page is
// sent to the scraper, so that scrapers that receive slowly do not count towards
// maxScrapes.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement http.ResponseWriter.
func (p *bufferedResponse) Header() http.Header         { return p.header }
func (p *bufferedResponse) WriteHeader(status int)      { p.status = status }
func (p *bufferedResponse) Write(b []byte) (int, error) { return p.body.Write(b) }

func newRegistry(c *Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// errorLog is a logger that passes the errors of promhttp to a function.
type errorLog func(error)

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	for _, x := range v {
		if err, ok := x.(error); ok {
			l(err)
		}
	}
}
