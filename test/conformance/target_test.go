package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// application returns a handler that has a path for each kind of response. The redirects
// of the path /redirect can lead to two other applications. The parameter otherPort is the
// port of the one without TLS, and secure is the port of the one with TLS.
func application(otherPort, secure int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	// The query parameter "to" is the value of Location in the response. Without this
	// parameter, the response has no Location.
	mux.HandleFunc("/redirect/{code}", func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", strings.NewReplacer("OTHER", strconv.Itoa(otherPort), "SECURE", strconv.Itoa(secure)).Replace(to))
		}
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	// /chain/3 redirects three times before the 200.
	mux.HandleFunc("/chain/{left}", func(w http.ResponseWriter, r *http.Request) {
		if remaining, _ := strconv.Atoi(r.PathValue("left")); remaining > 0 {
			http.Redirect(w, r, fmt.Sprintf("/chain/%d", remaining-1), http.StatusFound)
		}
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	// The status is 200 if the request matches the query of /header, or the name in
	// /host/NAME, otherwise 400.
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			if got := r.Header[name]; strings.Join(got, "|") != strings.Join(values, "|") {
				http.Error(w, fmt.Sprintf("%s is %q", name, got), http.StatusBadRequest)
			}
		}
	})
	mux.HandleFunc("/host/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != r.PathValue("name") {
			http.Error(w, "the host is "+r.Host, http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/kubelets-only", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "kube-probe/") || r.Method != http.MethodGet {
			http.Error(w, r.Method+" by "+r.UserAgent(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 4<<20))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 16<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/big-head", func(w http.ResponseWriter, r *http.Request) {
		for i := range 64 {
			w.Header().Set(fmt.Sprintf("X-Filler-%d", i), strings.Repeat("x", 4<<10))
		}
	})
	mux.HandleFunc("/early-hints", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Respond to these targets with 200. The mux would redirect the first to a
		// cleaned path, and respond to the others with 404.
		switch r.RequestURI {
		case "/a%2Fb//../c?d=%20e&f", "/%25zz", "/plain":
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var discard = log.New(io.Discard, "", 0)

func portOf(s *httptest.Server) int {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		panic(err)
	}
	return port
}

func serve(t *testing.T, h http.Handler) int {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return portOf(s)
}

// serveTLS serves with an untrusted certificate.
func serveTLS(t *testing.T, h http.Handler) int {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discard
	s.StartTLS()
	t.Cleanup(s.Close)
	return portOf(s)
}

// serveHTTP2 serves HTTP/2 without TLS and nothing else.
func serveHTTP2(t *testing.T, h http.Handler) int {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return portOf(s)
}

// serveTLSHTTP2 serves HTTP/2 over TLS and nothing else.
func serveTLSHTTP2(t *testing.T, h http.Handler) int {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discard
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP2(true)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return portOf(s)
}

// serveGRPC starts a gRPC server and returns its port. If h is nil, the server has no
// health service.
func serveGRPC(t *testing.T, h healthpb.HealthServer) int {
	s := grpc.NewServer()
	if h != nil {
		healthpb.RegisterHealthServer(s, h)
	}
	l := listenLocal(t)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().(*net.TCPAddr).Port
}

// healthOf returns a health server with two services. The service "" has the given
// status. The service "other" has a different one: NOT_SERVING if the given status is
// SERVING, otherwise SERVING.
func healthOf(status healthpb.HealthCheckResponse_ServingStatus) *health.Server {
	h := health.NewServer()
	h.SetServingStatus("", status)
	other := healthpb.HealthCheckResponse_SERVING
	if status == other {
		other = healthpb.HealthCheckResponse_NOT_SERVING
	}
	h.SetServingStatus("other", other)
	return h
}

// silentHealth never responds.
type silentHealth struct {
	healthpb.UnimplementedHealthServer
}

func (silentHealth) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// serveRaw reads a head, calls answer, and closes the connection.
func serveRaw(t *testing.T, respond func(c *net.TCPConn)) int {
	return serveConns(t, func(c *net.TCPConn) {
		reader := bufio.NewReader(c)
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			if strings.TrimRight(line, "\r\n") == "" {
				break
			}
		}
		respond(c)
	})
}

// serveText responds with text and closes.
func serveText(t *testing.T, text string) int {
	return serveRaw(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, text) })
}

// serveUntilClose responds with text, and waits until the peer closes.
func serveUntilClose(t *testing.T, text string) int {
	return serveRaw(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	})
}

func reset(c *net.TCPConn) { _ = c.SetLinger(0) }

// serveConns accepts connections until the test ends, and then waits for all calls of
// handle.
func serveConns(t *testing.T, handle func(c *net.TCPConn)) int {
	l := listenLocal(t)
	var mu sync.Mutex
	conns, closed := map[net.Conn]bool{}, false
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if conns[c] = true; closed {
				_ = c.Close()
			}
			mu.Unlock()
			running.Go(func() {
				handle(c.(*net.TCPConn))
				_ = c.Close()
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		closed = true
		for c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", podIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
