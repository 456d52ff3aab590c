package engine

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

var (
	firstTokenBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	betweenBounds    = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5}
	e2eBounds        = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60}
)

// histogram counts values by bucket.
type histogram struct {
	bounds []float64
	counts []int64 // last element: values above all bounds
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) add(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
}

// metrics writes a page with the metric names of vLLM.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	var page strings.Builder
	const labels = `engine="0",model_name="` + modelName + `"`
	one := func(name, kind, help string, v float64) {
		fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s %s\n%s{%s} %s\n", name, help, strings.TrimSuffix(name, "_total"), kind, name, labels, strconv.FormatFloat(v, 'g', -1, 64))
	}
	s.mu.Lock()
	st := s.model.Stats()
	one("vllm:num_requests_running", "gauge", "Requests in execution batches.", float64(st.Running))
	one("vllm:num_requests_waiting", "gauge", "Requests waiting to be processed.", float64(st.Waiting))
	one("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", st.KV)
	one("vllm:num_preemptions_total", "counter", "Preemptions by the engine.", float64(st.Preemptions))
	one("vllm:prompt_tokens_total", "counter", "Prefill tokens processed.", float64(st.PromptTokens))
	one("vllm:generation_tokens_total", "counter", "Generation tokens processed.", float64(st.GeneratedTokens))
	one("vllm:request_success_total", "counter", "Requests finished.", float64(st.Finished))
	many := func(name, help string, h *histogram) {
		fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
		n := int64(0)
		for i, count := range h.counts {
			n += count
			le := math.Inf(1)
			if i < len(h.bounds) {
				le = h.bounds[i]
			}
			fmt.Fprintf(&page, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels, strconv.FormatFloat(le, 'g', -1, 64), n)
		}
		fmt.Fprintf(&page, "%s_count{%s} %d\n%s_sum{%s} %s\n", name, labels, n, name, labels, strconv.FormatFloat(h.sum, 'g', -1, 64))
	}
	many("vllm:time_to_first_token_seconds", "Time to first token in seconds.", &s.first)
	many("vllm:inter_token_latency_seconds", "Inter-token latency in seconds.", &s.tokenGaps)
	many("vllm:e2e_request_latency_seconds", "End-to-end request latency in seconds.", &s.e2e)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(page.String()))
}
