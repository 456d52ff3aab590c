package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/atomic"
)

// The tests use these two engines. A step of the first engine takes one millisecond. A
// step of the second takes one hour, so it does not end during a test.
var (
	quick = Config{BlockSize: 16, Blocks: 100, MaxModelLen: 1600, MaxSequences: 10, MaxBatchedTokens: 1024, Base: time.Millisecond}
	slow  = Config{BlockSize: 16, Blocks: 100, MaxModelLen: 1600, MaxSequences: 10, MaxBatchedTokens: 1024, Base: time.Hour}
)

func start(t *testing.T, c Config, prepare ...func(*Server)) *Server {
	t.Helper()
	s, err := NewServer(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(s)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func post(t *testing.T, ctx context.Context, s *Server, path, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.Address()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func eventually(t *testing.T, description string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 minutes: %s", description)
		}
	}
}

func page(t *testing.T, s *Server) string {
	t.Helper()
	res, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStreamsAreServerSentEventsThatEndWithDone(t *testing.T) {
	s := start(t, quick)
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":"hello there","max_tokens":5,"ignore_eos":true,"stream":true}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hello"}],"max_completion_tokens":5,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
	} {
		res := post(t, t.Context(), s, path, body)
		if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%s: %s, %v", path, res.Status, res.Header)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		events := strings.Split(string(text), "\n\n")
		want := 7 // five tokens, [DONE], and the empty text after the last blank line
		if strings.Contains(body, "include_usage") {
			want++
		}
		if len(events) != want || events[want-2] != "data: [DONE]" || events[want-1] != "" {
			t.Fatalf("%s: %d events:\n%s", path, len(events), text)
		}
		for i, e := range events[:5] {
			var chunk struct {
				Choices []struct {
					Reason *string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &chunk); err != nil || len(chunk.Choices) != 1 {
				t.Fatalf("%s: %q: %v", path, e, err)
			}
			if last := chunk.Choices[0].Reason != nil; last != (i == 4) {
				t.Errorf("%s: chunk %d has the finish_reason: %v", path, i, last)
			}
		}
		if strings.Contains(body, "include_usage") && !strings.Contains(events[5], `"completion_tokens":5`) {
			t.Errorf("usage is %q", events[5])
		}
	}
}

func TestAResponseWithoutStreamHasAllTokensAndUsage(t *testing.T) {
	s := start(t, quick)
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":[1,2,3],"max_tokens":4,"ignore_eos":true}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"ignore_eos":true}`,
	} {
		text, err := io.ReadAll(post(t, t.Context(), s, path, body).Body)
		if err != nil || strings.Count(string(text), "word ") != 4 || !strings.Contains(string(text), `"completion_tokens":4`) {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
	if st := s.Now(); st.GeneratedTokens != 8 || st.Finished != 2 {
		t.Errorf("%+v", st)
	}
}

func TestEqualSeedsGiveOutputsOfEqualLength(t *testing.T) {
	lengths := func() (all []int) {
		s, err := NewServer(quick, 7)
		if err != nil {
			t.Fatal(err)
		}
		most := 1000
		for range 20 {
			n, _ := s.outputTokens(&body{MaxTokens: &most}, &completions, 5)
			all = append(all, n)
		}
		return all
	}
	a, b := lengths(), lengths()
	if fmt.Sprint(a) != fmt.Sprint(b) || a[0] == a[1] && a[1] == a[2] {
		t.Errorf("%v and %v", a, b)
	}
}

func TestADisconnectAbortsTheRequest(t *testing.T) {
	var endedID atomic.String
	s := start(t, slow, func(s *Server) { s.OnEnd = func(id string, _ *Request) { endedID.Store(id) } })
	ctx, cancel := context.WithCancel(t.Context())
	res := post(t, ctx, s, "/v1/completions", `{"prompt":"hello","max_tokens":5,"stream":true}`, "X-Request-Id", "a")
	if s.InFlight() != 1 {
		t.Fatalf("%d in flight, want 1", s.InFlight())
	}
	cancel()
	eventually(t, "the request is aborted", func() bool { return s.InFlight() == 0 && endedID.Load() == "a" })
	_, _ = io.Copy(io.Discard, res.Body)
}

func TestAnEngineWithAnOracleQueuesRequestsUntilTheyFit(t *testing.T) {
	s := start(t, slow, func(s *Server) { s.Oracle = TrueLengths })
	const half = `{"prompt":"hello","max_tokens":900,"ignore_eos":true,"stream":true}`
	post(t, t.Context(), s, "/v1/completions", half)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://"+s.Address()+"/v1/completions", strings.NewReader(half))
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
			t.Error("a second request was admitted")
		}
	}()
	queued := func(n int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.queue) == n
		}
	}
	eventually(t, "the oracle queues the second request", queued(1))
	cancel()
	<-done
	eventually(t, "the oracle's queue is empty", queued(0))
}

func TestAnEngineWithAnOracleRejectsADeadlineThatCannotBeMet(t *testing.T) {
	s := start(t, slow, func(s *Server) { s.Oracle = TrueLengths })
	if res := post(t, t.Context(), s, "/v1/completions", `{"prompt":"hello"}`, "x-slo-ttft-ms", "1000"); res.StatusCode != 504 {
		t.Errorf("%s, want 504", res.Status)
	}
}

func TestInvalidRequestsGet400(t *testing.T) {
	s := start(t, quick)
	for _, body := range []string{"", "{", `{"max_tokens":5}`, `{"prompt":"x","max_tokens":0}`, `{"prompt":"` + strings.Repeat("x", 8000) + `"}`} {
		if res := post(t, t.Context(), s, "/v1/completions", body); res.StatusCode != 400 {
			t.Errorf("%.30s: %s, want 400", body, res.Status)
		}
	}
	if res := post(t, t.Context(), s, "/v1/completions", `{"prompt":"x"}`, "x-slo-ttft-ms", "soon"); res.StatusCode != 400 {
		t.Errorf("%s, want 400", res.Status)
	}
}

func TestTheMetricsPageHasTheNamesOfVLLM(t *testing.T) {
	s := start(t, quick)
	_, _ = io.Copy(io.Discard, post(t, t.Context(), s, "/v1/completions", `{"prompt":"hello","max_tokens":5,"ignore_eos":true}`).Body)
	text := page(t, s)
	for _, want := range []string{
		"vllm:num_requests_running{engine=\"0\",model_name=\"modelled\"} 0\n", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc{", "vllm:num_preemptions_total{",
		"vllm:generation_tokens_total{engine=\"0\",model_name=\"modelled\"} 5\n", "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"modelled\"} 1\n",
		"vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"modelled\"} 4\n", `le="+Inf"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if l := lines.Text(); !strings.HasPrefix(l, "#") && len(strings.Fields(l)) != 2 {
			t.Errorf("not a sample: %q", l)
		}
	}
	for _, path := range []string{"/health", "/v1/models"} {
		res, err := http.Get("http://" + s.Address() + path)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", path, res, err)
		}
		res.Body.Close()
	}
}

func TestTheCommandExplainsABadFlag(t *testing.T) {
	var out bytes.Buffer
	if err := Command([]string{"--blocks", "1"}, &out, &out); err == nil || !strings.Contains(err.Error(), "blocks") {
		t.Errorf("%v", err)
	}
}
