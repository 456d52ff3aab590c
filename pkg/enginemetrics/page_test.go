package enginemetrics

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func read(t *testing.T, text string) Page {
	t.Helper()
	p, err := readPage(strings.NewReader(text), make([]byte, maxLine))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return p
}

func TestTheFiguresOfEachModelServerAreRead(t *testing.T) {
	running := map[string]float64{"vLLM": 7, "SGLang": 2, "Triton": 9}
	for name, text := range map[string]string{
		"vLLM": `# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B"} 3.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0
vllm:num_requests_running{engine="0"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
`,
		"earlier vLLM":              "vllm:num_requests_waiting 3\nvllm:gpu_cache_usage_perc 0.5\n",
		"SGLang":                    "sglang:num_queue_reqs{model_name=\"m\"} 3.0\nsglang:num_running_reqs{model_name=\"m\"} 2\nsglang:token_usage{model_name=\"m\"} 0.5\n",
		"trtllm-serve":              "trtllm_num_requests_waiting 3\r\ntrtllm_kv_cache_utilization 0.5\r\n",
		"Triton":                    "nv_trt_llm_request_metrics{model=\"a\",request_type=\"scheduled\",version=\"1\"} 9\nnv_trt_llm_request_metrics{model=\"a\",request_type=\"waiting\",version=\"1\"} 3\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"} 12\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5",
		"sum of queues, highest KV": "vllm:num_requests_waiting{m=\"a\"} 1\nvllm:num_requests_waiting{m=\"b\"} 2\nvllm:kv_cache_usage_perc{m=\"a\"} 0.5\nvllm:kv_cache_usage_perc{m=\"b\"} 0.25\n",
		"odd labels":                "vllm:num_requests_waiting{m=\"} 9 \\\" {\", n=\"\\\\\" , } 3 1700000000000\nvllm:kv_cache_usage_perc{}\t5e-1\n",
		"other values":              "vllm:num_requests_waiting NaN\nvllm:num_requests_waiting -1\nvllm:num_requests_waiting +Inf\nvllm:num_requests_waiting x\nvllm:num_requests_waiting{m=\"\n" + "vllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n",
		"lines longer than the buffer": "x{l=\"" + strings.Repeat("vllm:num_requests_waiting 8 ", maxLine/8) + "\"} 1\nvllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n" +
			"vllm:num_requests_waiting{l=\"" + strings.Repeat("y", 2*maxLine) + "\"} 5",
	} {
		want := Page{Waiting: 3, KV: 0.5, HasWaiting: true, HasKV: true}
		want.Running = running[name]
		want.HasRunning = want.Running > 0
		if got := read(t, text); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		p, err := readPage(iotest.OneByteReader(strings.NewReader(text)), make([]byte, maxLine))
		if err != nil || p != want {
			t.Errorf("%s, byte by byte: %+v, %v", name, p, err)
		}
	}
}

func TestAnEnginePageMayLackTheQueueLengthOrTheKVCacheUsage(t *testing.T) {
	if p := read(t, "sglang:num_queue_reqs 0\n"); !p.HasWaiting || p.HasKV {
		t.Errorf("%+v", p)
	}
	if p := read(t, "sglang:token_usage 0.2"); p.HasWaiting || !p.HasKV || p.KV != 0.2 {
		t.Errorf("%+v", p)
	}
}

func TestPagesWithoutFiguresAreInvalid(t *testing.T) {
	for _, text := range []string{"", "\n\n", "go_goroutines 5\n", "<html></html>", "vllm:num_requests_waiting", strings.Repeat("a 1\n", maxPage/4+1)} {
		if p, err := readPage(strings.NewReader(text), make([]byte, maxLine)); err == nil {
			t.Errorf("%.20q: %+v", text, p)
		}
	}
	broken := io.MultiReader(strings.NewReader("vllm:num_requests_waiting 1\n"), iotest.ErrReader(errors.New("reset")))
	if _, err := readPage(broken, make([]byte, maxLine)); err == nil {
		t.Error("a page that was cut off is valid")
	}
}

func TestReadingAnEnginePageAllocatesAtMostTwice(t *testing.T) {
	text := strings.Repeat("vllm:other_metric_bucket{le=\"1.0\",model_name=\"m\"} 5.0\n", 1000) + "vllm:num_requests_waiting{model_name=\"m\"} 3.0\n"
	r, buf := strings.NewReader(text), make([]byte, maxLine)
	if n := testing.AllocsPerRun(100, func() {
		r.Reset(text)
		if p, err := readPage(r, buf); err != nil || p.Waiting != 3 {
			t.Fatal(p, err)
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte("vllm:num_requests_waiting{a=\"b\"} 1\nvllm:kv_cache_usage_perc 0.5\n"), 64)
	f.Add([]byte("nv_trt_llm_request_metrics{request_type=\"waiting\""), 8)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 16 + size&1023
		p, err := readPage(strings.NewReader(string(text)), make([]byte, size))
		q, errOfOne := readPage(iotest.OneByteReader(strings.NewReader(string(text))), make([]byte, size))
		if p != q || (err == nil) != (errOfOne == nil) {
			t.Errorf("%+v, %v; byte by byte %+v, %v", p, err, q, errOfOne)
		}
		if p.Waiting < 0 || p.KV < 0 {
			t.Errorf("%+v", p)
		}
	})
}
