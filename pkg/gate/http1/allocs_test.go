package http1

import (
	"bytes"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// serveFixed sends the same response to each request. After the first request it
// allocates nothing.
func serveFixed(ln net.Listener, response []byte) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			b := make([]byte, 4096)
			n := 0
			for {
				k, err := conn.Read(b[n:])
				if err != nil {
					return
				}
				if n += k; !bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
					continue
				}
				n = 0
				if _, err := conn.Write(response); err != nil {
					return
				}
			}
		}()
	}
}

type countingObserver struct{ begun, ended atomic.Int64 }

func (o *countingObserver) Begin(*gate.Record)  { o.begun.Inc() }
func (o *countingObserver) End(*gate.Record)    { o.ended.Inc() }
func (*countingObserver) Rejected(gate.Outcome) {}
func (*countingObserver) Probed(*gate.Record)   {}

// TestKeepAliveRequestsDoNotAllocate counts the allocations of the whole process. The
// test's client and container do not allocate.
func TestKeepAliveRequestsDoNotAllocate(t *testing.T) {
	const (
		requests = 2000
		most     = 0.01 // maximum allocations per request; above 0 because the runtime sometimes allocates
	)
	for _, c := range []struct {
		name, request, response, end string
	}{
		{"GET", "GET /some/path?q=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello", "hello"},
		{"chunked response", "GET / HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "\r\n0\r\n\r\n"},
		{"response without a body", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", "\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer up.Close()
			go serveFixed(up, []byte(c.response))
			observer := &countingObserver{}
			g := &exchange.Gate{Config: exchange.Config{
				ConcurrencyLimit: 10, QueueCapacity: 100, QueueMaxWait: time.Minute,
				RequestTimeout: 5 * time.Minute, ResponseStartTimeout: time.Minute, IdleTimeout: time.Minute,
				UpstreamWait: 10 * time.Second, Observer: observer,
			}}
			if err := g.Init(); err != nil {
				t.Fatal(err)
			}
			s, err := server.NewServer(g, server.Config{HTTP1: &Protocol{}, Upstream: upstream.Config{Address: up.Addr().(*net.TCPAddr).AddrPort()}, Loops: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := ln.Addr().String()
			if err := s.Serve(ln.(*net.TCPListener)); err != nil {
				t.Fatal(err)
			}
			client, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_ = client.SetDeadline(time.Now().Add(2 * testkit.Timeout))

			request := []byte(c.request)
			b := make([]byte, 4096)
			send := func(size int) int {
				if _, err := client.Write(request); err != nil {
					t.Fatal(err)
				}
				if size > 0 {
					if _, err := io.ReadFull(client, b[:size]); err != nil {
						t.Fatal(err)
					}
					return size
				}
				// The length of the first response is not known yet, so read until it
				// ends with c.end.
				for n := 0; ; {
					k, err := client.Read(b[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += k
					if bytes.HasSuffix(b[:n], []byte(c.end)) {
						return n
					}
				}
			}
			size := send(0)
			for range 100 {
				send(size)
			}
			least := math.Inf(1)
			// Measure three times, because the runtime itself may allocate during one
			// measurement.
			for range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range requests {
					send(size)
				}
				runtime.ReadMemStats(&after)
				least = min(least, float64(after.Mallocs-before.Mallocs)/requests)
			}
			if !raceDetector && least >= most {
				t.Errorf("%.3f allocations per request", least)
			}
			if n := observer.begun.Load(); n != 3*requests+101 {
				t.Errorf("%d requests were observed, want %d", n, 3*requests+101)
			}
			if p := s.Stats(); p.Dials != 1 {
				t.Errorf("%d connections to the container, want 1", p.Dials)
			}
		})
	}
}
