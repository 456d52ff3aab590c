package conformance

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	"google.golang.org/grpc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// startGateThatMayExit is like startGate, but the gate may exit before the end of the
// test. With startGate, such an exit fails the test.
func startGateThatMayExit(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	g := startGate(t, userPort, settings...)
	g.mayEnd = true
	return g
}

func (g *gate) ready() bool {
	g.t.Helper()
	request, err := http.NewRequest(http.MethodGet, g.url("/"), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("K-Network-Probe", "queue")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}).Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// listenAt serves s on this port.
func listenAt(t *testing.T, port int, s *grpc.Server) {
	t.Helper()
	ln, err := net.Listen("tcp", podAddress(port))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }() // returns after Stop
	t.Cleanup(s.Stop)
}

// resetting starts an HTTP/2 container that resets every stream.
func resetting(t *testing.T) int {
	return serveHTTP2(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
	}))
}
