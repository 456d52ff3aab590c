package torture

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	nethttp2 "golang.org/x/net/http2"

	"github.com/queuegate/queuegate/test/torture/script"
)

// Each proxy stands in for an activator or an ingress, and forwards POSTs over h2c to
// the current gate. A proxy cannot retry a POST whose body is streamed. So a gate that
// terminates must not lose a POST.
const (
	proxies        = 16
	clientsOfProxy = 2
)

func TestAReplacementOfTheGateBehindGoProxiesLosesNoPOST(t *testing.T) {
	each(t, scaled(20, 4), func(t *testing.T, protocol string, rolls int) {
		k := startContainer(t, protocol, newLedger(t).write)
		begin := func() *gate {
			return startGate(t, k.port, "UPSTREAM_PROTOCOL="+protocol, "CONTAINER_CONCURRENCY=0", "DRAIN_QUIET_SECONDS=0.5")
		}
		current := begin()
		var addr atomic.Value
		addr.Store(current.addr)

		var all sync.WaitGroup
		var sent, unsent, lost atomic.Int64
		var stopped atomic.Bool
		for p := range proxies {
			front, end := goProxy(&addr)
			defer end()
			for c := range clientsOfProxy {
				rng := random(t.Name(), p*clientsOfProxy+c)
				all.Go(func() {
					client := &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: testTimeout}
					defer client.CloseIdleConnections()
					for !stopped.Load() {
						sent.Add(1)
						err := postStreaming(client, front, rng)
						switch {
						case errors.Is(err, errUnsent):
							unsent.Add(1)
						case err != nil && lost.Add(1) <= 10:
							t.Errorf("lost: %v", err)
						}
					}
				})
			}
		}
		for range rolls {
			time.Sleep(randomIn(random(t.Name(), -rolls), 100*time.Millisecond, 300*time.Millisecond))
			next := begin()
			signal(t, current.child, syscall.SIGTERM)
			time.Sleep(20 * time.Millisecond) // time until proxies see the change of endpoints
			addr.Store(next.addr)
			select {
			case <-current.Exited:
				if code := current.Cmd.ProcessState.ExitCode(); code != 0 {
					t.Errorf("the gate ended with code %d\n%s", code, current.Stderr.String())
				}
			case <-time.After(testTimeout):
				t.Fatalf("the gate does not exit\n%s", current.Stderr.String())
			}
			if fault := current.Fault(); fault != "" {
				t.Errorf("the gate reported: %s", fault)
			}
			current = next
		}
		stopped.Store(true)
		all.Wait()
		t.Logf("%d replacements behind %d proxies: %d POSTs, %d lost, %d never sent by a proxy", rolls, proxies, sent.Load(), lost.Load(), unsent.Load())
	})
}

// goProxy starts the standard library's reverse proxy with an h2c transport.
func goProxy(addr *atomic.Value) (url_ string, end func()) {
	//lint:ignore SA1019 many proxies in production use it
	transport := &nethttp2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, _ string, _ *tls.Config) (net.Conn, error) {
		for {
			current := addr.Load().(string)
			conn, err := new(net.Dialer).DialContext(ctx, network, current)
			if err == nil || addr.Load() == current {
				return conn, err
			}
			// The gate was replaced, and has exited, since the address was read.
		}
	}}
	target := &url.URL{Scheme: "http", Host: "gate.test"}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("X-Why", fmt.Sprintf("%.200q", err.Error()))
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	s := httptest.NewServer(proxy)
	//lint:ignore SA1019 as at the transport above
	return s.URL, func() { s.Close(); transport.CloseIdleConnections() }
}

// errUnsent reports a race in x/net's transport that no server can prevent. A GOAWAY
// arrives after the transport has chosen a connection, and before the transport has
// written the head of the request. The transport then closes the request body, and
// retries on another connection. The retry fails because the body is closed.
var errUnsent = errors.New("the proxy closed the body before sending it")

// postStreaming sends a body in pieces with pauses, and checks the response.
func postStreaming(client *http.Client, front string, rng *rand.Rand) error {
	id, pieces := rng.IntN(1<<30), 2+rng.IntN(6)
	body := make([]byte, pieces*(1+rng.IntN(4000)))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	r, w := io.Pipe()
	pauses := rand.New(rand.NewPCG(rng.Uint64(), 0))
	go func() {
		n := len(body) / pieces
		for i := range pieces {
			if _, err := w.Write(body[i*n : (i+1)*n]); err != nil {
				return
			}
			time.Sleep(randomIn(pauses, 0, 4*time.Millisecond))
		}
		_ = w.Close()
	}()
	defer r.Close()
	q, err := http.NewRequest("POST", front+"/", r)
	if err != nil {
		return err
	}
	q.Header.Set(script.ID, strconv.Itoa(id))
	q.Header.Set(script.Size, "100")
	a, err := client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	got, err := io.ReadAll(a.Body)
	if strings.Contains(a.Header.Get("X-Why"), "invalid Read on closed Body") {
		return errUnsent
	}
	want := fmt.Appendf(nil, "%d %d %08x\n", id, len(body), crc32.ChecksumIEEE(body))
	if err != nil || a.StatusCode != 200 || !bytes.HasPrefix(got, want) {
		return fmt.Errorf("%d %.100q %s %v, want %q", a.StatusCode, got, a.Header.Get("X-Why"), err, want)
	}
	return nil
}
