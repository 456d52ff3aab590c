// Streaming is a model server like those of KServe. It implements the part of
// the Open Inference Protocol that generates text. The response is either one
// JSON object, or a stream of server-sent events with one event per token. The
// server listens when it has loaded its model. It has no queue, because the
// gate in front of it queues requests and forwards one at a time:
//
//	queue --concurrency 1 -- streaming --load 3s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A server generates text with a model that repeats its input.
type server struct {
	token time.Duration // time per token
}

type prompt struct {
	Text string `json:"text_input"`
}

type reply struct {
	Model string `json:"model_name"`
	Text  string `json:"text_output"`
}

func main() {
	port := flag.String("port", os.Getenv("PORT"), "port to listen on; PORT, else 8080")
	load := flag.Duration("load", time.Second, "time to load the model")
	token := flag.Duration("token", 100*time.Millisecond, "time for one token")
	flag.Parse()
	if *port == "" {
		*port = "8080"
	}
	time.Sleep(*load)
	listener, err := net.Listen("tcp", "127.0.0.1:"+*port)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("model loaded, listening on %s", listener.Addr())
	s := &server{token: *token}
	web := &http.Server{Handler: s.handler()}
	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	context.AfterFunc(stopped, func() { _ = web.Shutdown(context.Background()) })
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/health/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v2/models/{model}/generate", s.generate)
	mux.HandleFunc("POST /v2/models/{model}/generate_stream", s.stream)
	return mux
}

// generate responds when the last token is ready.
func (s *server) generate(w http.ResponseWriter, r *http.Request) {
	var text []string
	if !s.tokens(w, r, func(token string) error {
		text = append(text, token)
		return nil
	}) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply{r.PathValue("model"), strings.Join(text, " ")})
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s.tokens(w, r, func(token string) error {
		text, err := json.Marshal(reply{r.PathValue("model"), token})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
}

// tokens generates the response to a prompt, and reports whether it is complete. It stops
// when the client disconnects, because the gate then cancels the request.
func (s *server) tokens(w http.ResponseWriter, r *http.Request, each func(string) error) bool {
	var p prompt
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&p); err != nil {
		http.Error(w, "want {\"text_input\": \"...\"}", http.StatusBadRequest)
		return false
	}
	for token := range strings.FieldsSeq(p.Text) {
		select {
		case <-time.After(s.token):
		case <-r.Context().Done():
			return false
		}
		if err := each(token); err != nil {
			return false
		}
	}
	return true
}
