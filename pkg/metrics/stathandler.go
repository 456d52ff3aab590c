package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Content types of the responses.
const (
	statContentType = "application/protobuf"
	textContentType = "text/plain; version=0.0.4; charset=utf-8"
)

// StatHandler serves /metrics to the autoscaler. Other paths get status 404. The
// parameter clock must be the clock of the times that are passed to c.
func StatHandler(id Identity, c *Counting, clock func() time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		stat := NewStat(id.Pod, c, clock())
		var body []byte
		if asksForText(r.Header.Values("Accept")) {
			w.Header().Set("Content-Type", textContentType)
			body = stat.AppendText(make([]byte, 0, 2048), id)
		} else {
			w.Header().Set("Content-Type", statContentType)
			body = stat.AppendProto(make([]byte, 0, MaxStatBytes))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
}

// asksForText reports whether the first media range in Accept is a text format of
// Prometheus. It ignores weights.
func asksForText(accept []string) bool {
	if len(accept) == 0 {
		return false
	}
	first, _, _ := strings.Cut(accept[0], ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.TrimSpace(first)
	return strings.EqualFold(first, "text/plain") || strings.EqualFold(first, "application/openmetrics-text")
}
