package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const modelName = "modelled"

// maxBody is the maximum size of a request body in bytes.
const maxBody = 4 << 20

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": modelName, "object": "model", "owned_by": "bench"}}})
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, completions) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, chat) })
	return mux
}

// body holds the fields of a request that affect the model.
type body struct {
	Prompt              any       `json:"prompt"` // a string or a list of tokens
	Messages            []message `json:"messages"`
	MaxTokens           *int      `json:"max_tokens"`
	MaxCompletionTokens *int      `json:"max_completion_tokens"`
	Stream              bool      `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	IgnoreEOS bool `json:"ignore_eos"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// tokens estimates the number of tokens in a text as one per four bytes.
func tokens(text string) int { return (len(text) + 3) / 4 }

func (b *body) promptTokens() int {
	n := 0
	switch p := b.Prompt.(type) {
	case string:
		n = tokens(p)
	case []any:
		n = len(p)
	}
	for _, m := range b.Messages {
		n += tokens(m.Content) + 4 // the chat template adds about four tokens
	}
	return n
}

// dialect is the message format of an endpoint.
type dialect struct {
	id, object, chunk string
	choice            func(text string, reason any) map[string]any // part of a complete response
	delta             func(text string, reason any) map[string]any // part of a stream
}

var completions = dialect{"cmpl-", "text_completion", "text_completion", textChoice, textChoice}

func textChoice(text string, reason any) map[string]any {
	return map[string]any{"index": 0, "text": text, "logprobs": nil, "finish_reason": reason}
}

var chat = dialect{
	"chatcmpl-", "chat.completion", "chat.completion.chunk",
	func(text string, reason any) map[string]any {
		return map[string]any{"index": 0, "message": message{"assistant", text}, "finish_reason": reason}
	},
	func(text string, reason any) map[string]any {
		return map[string]any{"index": 0, "delta": map[string]any{"content": text}, "finish_reason": reason}
	},
}

const tokenText = "word "

const (
	// The output length of a request is random, with a log-normal distribution. If the
	// request sets ignore_eos, the output is as long as max_tokens allows.
	outputMedian = 120
	outputSigma  = 0.9
	// defaultMaxTokens is the output length of /v1/completions without
	// max_tokens.
	defaultMaxTokens = 16
)

// outputTokens returns the number of output tokens and the finish reason.
func (s *Server) outputTokens(b *body, d *dialect, prompt int) (int, string) {
	most := s.model.cfg.MaxModelLen - prompt
	switch {
	case b.MaxCompletionTokens != nil:
		most = min(most, *b.MaxCompletionTokens)
	case b.MaxTokens != nil:
		most = min(most, *b.MaxTokens)
	case d.object == completions.object:
		most = min(most, defaultMaxTokens)
	}
	if b.IgnoreEOS {
		return most, "length"
	}
	s.mu.Lock()
	s.created++
	draw := rand.New(rand.NewPCG(s.seed, s.created))
	s.mu.Unlock()
	if n := drawOutput(draw); n < most {
		return n, "stop"
	}
	return most, "length"
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, d dialect) {
	var b body
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&b); err != nil {
		fail(w, http.StatusBadRequest, "reading the body: "+err.Error())
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // net/http detects a disconnect only after the body was read
	q := &Request{Prompt: b.promptTokens()}
	if q.Prompt == 0 {
		fail(w, http.StatusBadRequest, "prompt or messages: want text")
		return
	}
	output, reason := s.outputTokens(&b, &d, q.Prompt)
	q.Output = output
	generated := make(chan bool, max(q.Output, 1))
	previous := time.Duration(0)
	q.Token = func(last bool) { // mu is held
		s.observe(q, previous, last)
		previous = now()
		generated <- last
	}
	var deadline time.Duration
	if text := r.Header.Get("x-slo-ttft-ms"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 0 {
			fail(w, http.StatusBadRequest, "x-slo-ttft-ms: want milliseconds")
			return
		}
		deadline = now() + time.Duration(ms)*time.Millisecond
	}
	switch err := s.submit(r.Context(), q, deadline); {
	case errors.Is(err, errLate):
		fail(w, http.StatusGatewayTimeout, err.Error())
		return
	case err != nil:
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	id := r.Header.Get("X-Request-Id")
	defer s.leave(id, q)
	if b.Stream {
		s.stream(w, r, &d, &b, q, generated, reason)
		return
	}
	for range q.Output {
		select {
		case <-generated:
		case <-r.Context().Done():
			return
		case <-s.stopped:
			return
		}
	}
	text := make([]byte, 0, q.Output*len(tokenText))
	for range q.Output {
		text = append(text, tokenText...)
	}
	response := envelope(d.id+id, d.object)
	response["choices"], response["usage"] = []any{d.choice(string(text), reason)}, usage(q)
	writeJSON(w, http.StatusOK, response)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, d *dialect, b *body, q *Request, generated <-chan bool, reason string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = out.Flush() // send the head before the first token, as vLLM does
	event := func(choices []any, more map[string]any) []byte {
		chunk := envelope(d.id+r.Header.Get("X-Request-Id"), d.chunk)
		chunk["choices"] = choices
		for k, v := range more {
			chunk[k] = v
		}
		text, err := json.Marshal(chunk)
		if err != nil {
			panic("BUG: a chunk does not encode as JSON: " + err.Error())
		}
		return fmt.Appendf(nil, "data: %s\n\n", text)
	}
	token := event([]any{d.delta(tokenText, nil)}, nil)
	for {
		last := false
		select {
		case last = <-generated:
		case <-r.Context().Done():
			return
		case <-s.stopped:
			return
		}
		text := token
		if last {
			text = event([]any{d.delta(tokenText, reason)}, nil)
			if b.StreamOptions.IncludeUsage {
				text = append(text, event([]any{}, map[string]any{"usage": usage(q)})...)
			}
			text = append(text, "data: [DONE]\n\n"...)
		}
		if _, err := w.Write(text); err != nil || out.Flush() != nil || last {
			return
		}
	}
}

func envelope(id, object string) map[string]any {
	return map[string]any{"id": id, "object": object, "created": time.Now().Unix(), "model": modelName}
}

func usage(q *Request) map[string]any {
	return map[string]any{"prompt_tokens": q.Prompt, "completion_tokens": q.Output, "total_tokens": q.Prompt + q.Output}
}

func fail(w http.ResponseWriter, status int, reason string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": reason, "type": http.StatusText(status), "code": status}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
