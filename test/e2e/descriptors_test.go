package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// openMany opens n connections to addr, and sends text on each. They stay open until the
// end of the test.
func openMany(t *testing.T, addr string, n int, text string) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", addr, testTimeout)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, text) // the gate may have closed it
	}
}

func TestIdleConnectionsAreReclaimedWhenDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"64", "256"} {
		for name, text := range map[string]string{
			"silent":             "",
			"idle":               "GET / HTTP/1.1\r\nHost: h\r\nK-Network-Probe: probe\r\nK-Network-Hash: h\r\n\r\n",
			"an incomplete head": "GET / HTTP/1.1\r\nHost: h\r\nX-",
			"h2c, no stream":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
			"lingering":          "GET / HTTP/1.1\r\n\r\n",
		} {
			t.Run(limit+" "+name, func(t *testing.T) {
				t.Parallel()
				k := startContainer(t)
				must(t, k.RespondAll([]byte(okBody)))
				g := startGate(t, k, "ulimit -n "+limit)
				var honest sync.WaitGroup
				done := make(chan struct{})
				keepAlive := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: testTimeout}
				defer keepAlive.CloseIdleConnections()
				get := func() (response *http.Response, err error) {
					// If descriptors are scarce, the gate may close a new connection on
					// which no byte arrives for 10 ms (exchange.MinSilence). On a busy
					// machine the first byte may be later, so try again. A request that
					// fails in less than 10 ms has another fault, so report it.
					for range 100 {
						began := time.Now()
						response, err = keepAlive.Get("http://" + g.addr + "/kept")
						if err == nil || time.Since(began) < 10*time.Millisecond {
							break
						}
					}
					return response, err
				}
				// Another client sends one request after the other. It uses the same
				// connection until the gate closes that connection.
				honest.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-done:
							t.Logf("%d requests on a reused connection", n)
							return
						default:
						}
						if response, err := get(); err != nil || response.StatusCode != 200 {
							t.Errorf("request %d: %v, %v", n, response, err)
							return
						} else if _, err := io.Copy(io.Discard, response.Body); err != nil {
							t.Errorf("request %d: %v", n, err)
						}
					}
				})
				openMany(t, g.addr, 600, text)
				for range 50 {
					c := dial(t, g)
					c.get("/fresh").is(200, "ok")
					c.close()
				}
				close(done)
				honest.Wait()
			})
		}
	}
}

// The gate has too few descriptors for all upstream connections that its clients need.
func TestRequestsWaitForAConnectionWhenDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const clients, limit = 50, 100
	k := startContainer(t)
	must(t, k.RespondAll([]byte(okBody)))
	g := startGate(t, k, fmt.Sprintf("ulimit -n %d", limit))
	conns := make([]*client, clients)
	var all sync.WaitGroup
	for i := range conns {
		conns[i] = dial(t, g)
	}
	for _, c := range conns {
		all.Go(func() {
			for range 50 {
				if a := c.get("/"); a.status != 200 {
					t.Errorf("status %d, %s", a.status, a.get("K-Gate-Outcome"))
					return
				}
			}
		})
	}
	all.Wait()
}

// Idle connections to any port must not keep side ports from responding, and connections
// to a side port must not delay traffic.
func TestSidePortsRespondWhenClientsExhaustTheDescriptors(t *testing.T) {
	t.Parallel()
	const health = "GET /health/alive HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, limit := range []string{"64", "100", "1024"} {
		for name, clients := range map[string]struct {
			port int // index in the list below; -1 = serving port
			text string
		}{
			"silent on the serving port": {-1, ""},
			"silent on the admin port":   {0, ""},
			"idle on the admin port":     {0, health},
			"heads on the metrics port":  {1, "GET /metrics HTTP/1.1\r\nX"},
		} {
			t.Run(limit+" "+name, func(t *testing.T) {
				t.Parallel()
				k := startContainer(t)
				must(t, k.RespondAll([]byte(okBody)))
				ports := []int{freePort(t), freePort(t), freePort(t)}
				g := startGate(t, k, "ulimit -n "+limit, fmt.Sprintf("ADMIN_PORT=%d", ports[0]),
					fmt.Sprintf("METRICS_PORT=%d", ports[1]), fmt.Sprintf("AUTOSCALER_METRICS_PORT=%d", ports[2]))
				address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
				g.awaitPorts(address(ports[0]), address(ports[1]), address(ports[2]))
				to := g.addr
				if clients.port >= 0 {
					to = address(ports[clients.port])
				}
				openMany(t, to, 600, clients.text)
				each := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
				for range 20 {
					for i, path := range []string{"/health/alive", "/metrics", "/metrics"} {
						response, err := each.Get("http://" + address(ports[i]) + path)
						if err != nil || response.StatusCode != 200 {
							t.Fatalf("%s of port %d: %v, %v", path, i, response, err)
						}
						_, _ = io.Copy(io.Discard, response.Body)
						must(t, response.Body.Close())
					}
					c := dial(t, g)
					c.get("/fresh").is(200, "ok")
					c.close()
				}
			})
		}
	}
}
