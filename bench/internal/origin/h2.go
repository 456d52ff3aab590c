package origin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

// h2 serves HTTP/2 connections with net/http.
type h2 struct {
	once  sync.Once
	conns chan net.Conn
}

func newH2() *h2 { return &h2{conns: make(chan net.Conn, 64)} }

// serve serves a connection and takes ownership of the descriptor fd. The parameter seen
// has the bytes that were already read from the connection.
func (h *h2) serve(fd int, seen []byte) {
	h.once.Do(func() { go h.run() })
	file := os.NewFile(uintptr(fd), "h2c")
	c, err := net.FileConn(file) // FileConn duplicates the descriptor
	file.Close()
	if err != nil {
		return
	}
	h.conns <- replayed{c, io.MultiReader(bytes.NewReader(seen), c)}
}

func (h *h2) run() {
	server := &http.Server{Handler: http.HandlerFunc(handleH2), Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	_ = server.Serve(h) // runs until the process exits
}

// Accept, Close and Addr implement net.Listener. The HTTP server gets its connections
// from this listener.
func (h *h2) Accept() (net.Conn, error) { return <-h.conns, nil }
func (h *h2) Close() error              { return nil }
func (h *h2) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// replayed is a connection whose first bytes were already read; Read returns them again.
type replayed struct {
	net.Conn
	all io.Reader
}

func (r replayed) Read(p []byte) (int, error) { return r.all.Read(p) }

func handleH2(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/echo":
		echoH2(w, r)
	case r.URL.Path == "/grpc/unary":
		grpcH2(w, r, 1)
	case r.URL.Path == "/grpc/stream":
		grpcH2(w, r, 100)
	case strings.HasPrefix(r.URL.Path, "/bytes/"):
		n, err := strconv.ParseInt(r.URL.Path[len("/bytes/"):], 10, 64)
		if err != nil || n < 0 {
			http.Error(w, "bad size", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		for ; n > 0; n -= int64(len(wire.Filler)) {
			if _, err := w.Write(wire.Filler[:min(n, int64(len(wire.Filler)))]); err != nil {
				return
			}
		}
	case r.URL.Path == "/" || r.URL.Path == "/upload":
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if d, err := time.ParseDuration(r.URL.Query().Get("delay")); err == nil {
			time.Sleep(d)
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "hello world\n")
	default:
		http.NotFound(w, r)
	}
}

// grpcMessage is a gRPC message of 100 bytes, with its length prefix.
var grpcMessage = append([]byte{0, 0, 0, 0, 100}, wire.Filler[:100]...)

// grpcH2 responds to a call with messages, each in a separate DATA frame.
func grpcH2(w http.ResponseWriter, r *http.Request, messages int) {
	sent, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	if sent == 0 || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" {
		http.Error(w, "not a gRPC call", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	for range messages {
		if _, err := w.Write(grpcMessage); err != nil {
			return
		}
		if messages > 1 {
			w.(http.Flusher).Flush()
		}
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

func echoH2(w http.ResponseWriter, r *http.Request) {
	flusher := w.(http.Flusher)
	w.WriteHeader(http.StatusOK)
	flusher.Flush()
	p := make([]byte, 16<<10)
	for {
		n, err := r.Body.Read(p)
		if n > 0 {
			if _, err := w.Write(p[:n]); err != nil {
				return
			}
			flusher.Flush()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				panic(http.ErrAbortHandler)
			}
			return
		}
	}
}
