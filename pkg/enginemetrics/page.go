package enginemetrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Page holds the values that the gate reads from a model server's page.
type Page struct {
	// Waiting is the number of requests in the server's queue: the sum over all label
	// sets (models or data-parallel ranks).
	Waiting float64
	// Running is the number of requests in the server's batches: the sum over all label
	// sets.
	Running float64
	// KV is the used share of the KV cache, 0 to 1: the maximum over all label sets.
	KV float64
	// HasWaiting, HasRunning and HasKV report whether the page has these metrics.
	HasWaiting, HasRunning, HasKV bool
}

// figure identifies a value of a Page.
type figure uint8

const (
	waiting figure = iota
	running
	kv
)

// series lists the known metrics and the figure that each provides. If label is not
// empty, the gate reads only those samples in which this label has the given value.
//
// The names are those of the model server protocol of the Gateway API Inference Extension
// (proposal 003). Older versions of vLLM use the name vllm:gpu_cache_usage_perc.
var series = []struct {
	name, label, value string
	figure             figure
}{
	{"vllm:num_requests_waiting", "", "", waiting},
	{"vllm:num_requests_running", "", "", running},
	{"vllm:kv_cache_usage_perc", "", "", kv},
	{"vllm:gpu_cache_usage_perc", "", "", kv},
	{"sglang:num_queue_reqs", "", "", waiting},
	{"sglang:num_running_reqs", "", "", running},
	{"sglang:token_usage", "", "", kv},
	{"trtllm_num_requests_waiting", "", "", waiting}, // trtllm-serve
	{"trtllm_kv_cache_utilization", "", "", kv},
	{"nv_trt_llm_request_metrics", "request_type", "waiting", waiting}, // Triton
	{"nv_trt_llm_request_metrics", "request_type", "scheduled", running},
	{"nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction", kv},
}

const (
	// maxPage is the maximum size of a page in bytes.
	maxPage = 4 << 20
	// maxLine is the maximum length of a parsed line in bytes.
	maxLine = 16 << 10
)

var (
	errNoFigures = errors.New("the page has no metric of a known model server")
	errTooLong   = fmt.Errorf("the page is longer than %d bytes", maxPage)
)

// readPage reads a page in Prometheus' text format from r. buf must have maxLine bytes.
// It skips unknown metrics, long lines and invalid values. It returns an error if the
// page has none of the known metrics.
func readPage(r io.Reader, buf []byte) (p Page, err error) {
	buffered, total, skips := 0, 0, false
	for {
		n, readErr := r.Read(buf[buffered:])
		total += n
		if total > maxPage {
			return Page{}, errTooLong
		}
		rest := buf[:buffered+n]
		for {
			line, after, found := bytes.Cut(rest, []byte{'\n'})
			if !found {
				break
			}
			if !skips {
				p.add(line)
			}
			rest, skips = after, false
		}
		if len(rest) == len(buf) {
			rest, skips = nil, true
		}
		buffered = copy(buf, rest)
		switch {
		case readErr == io.EOF:
			if !skips {
				p.add(buf[:buffered])
			}
			if !p.HasWaiting && !p.HasKV {
				return Page{}, errNoFigures
			}
			return p, nil
		case readErr != nil:
			return Page{}, readErr
		}
	}
}

func (p *Page) add(line []byte) {
	end := bytes.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return
	}
	for i := range series {
		s := &series[i]
		if string(line[:end]) != s.name {
			continue
		}
		rest, selected := labels(line[end:], s.label, s.value)
		if !selected {
			continue // another row may have the same name
		}
		v, ok := sample(rest)
		if !ok {
			return
		}
		switch s.figure {
		case waiting:
			p.Waiting, p.HasWaiting = p.Waiting+v, true
		case running:
			p.Running, p.HasRunning = p.Running+v, true
		case kv:
			p.KV, p.HasKV = max(p.KV, v), true
		}
		return
	}
}

// labels skips the labels at the start of text and returns the text after them. It also
// reports whether the caller should use the sample. This is so if one of the labels has
// the given name and value, or if the given name is empty. A sample with malformed labels
// is not used.
func labels(text []byte, name, value string) (rest []byte, selected bool) {
	selected = name == ""
	if len(text) == 0 || text[0] != '{' {
		return text, selected
	}
	text = text[1:]
	for {
		text = bytes.TrimLeft(text, ", \t")
		if len(text) == 0 {
			return nil, false
		}
		if text[0] == '}' {
			return text[1:], selected
		}
		key, quoted, ok := bytes.Cut(text, []byte{'='})
		quoted = bytes.TrimLeft(quoted, " \t")
		if !ok || len(quoted) == 0 || quoted[0] != '"' {
			return nil, false
		}
		end := 1
		for end < len(quoted) && quoted[end] != '"' {
			if quoted[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(quoted) {
			return nil, false
		}
		if string(bytes.TrimSpace(key)) == name && string(quoted[1:end]) == value {
			selected = true
		}
		text = quoted[end+1:]
	}
}

// sample parses the value at the start of text. It ignores the timestamp that may follow.
// The result is false if the value is not a number, is infinite or is negative.
func sample(text []byte) (float64, bool) {
	text = bytes.TrimSpace(text)
	if i := bytes.IndexAny(text, " \t"); i >= 0 {
		text = text[:i]
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 0)
}
