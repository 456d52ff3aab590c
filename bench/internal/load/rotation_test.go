package load_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/load"
)

// manualServer responds when the test calls respond.
type manualServer struct {
	port     int
	requests chan request

	mu       sync.Mutex
	inFlight int
	most     int // peak number of requests in flight
}

// request is a request that waits for its response.
type request struct {
	number int // number of the connection, from 0 in the order of accept(2)
	conn   net.Conn
}

func startManual(t *testing.T) *manualServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &manualServer{port: listener.Addr().(*net.TCPAddr).Port, requests: make(chan request, 1000)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for number := 0; ; number++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(request{number, c}) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return s
}

func (s *manualServer) serve(r request) {
	defer r.conn.Close()
	lines := bufio.NewReader(r.conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if line == "\r\n" {
			s.count(+1)
			s.requests <- r
		}
	}
}

func (s *manualServer) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
	s.most = max(s.most, s.inFlight)
}

// respond updates the counts before it writes, so that the server never counts more
// requests than the client has in flight.
func (s *manualServer) respond(r request) {
	s.count(-1)
	io.WriteString(r.conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

func TestFewConcurrentRequestsRotateOverAllConnections(t *testing.T) {
	const (
		connections = 12
		underWay    = 4
		rotations   = 10 * connections / underWay
	)
	s := startManual(t)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := load.Start(ctx, load.Spec{Kind: load.HTTP, Port: s.port, Path: "/",
		Connections: connections, UnderWay: underWay, Threads: 1, Duration: 10 * testTimeout})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = p.Run()
	}()
	defer func() { // the load lasts longer than the test, so end it
		syscall.Kill(p.PID(), syscall.SIGKILL)
		<-done
		p.Stop()
	}()
	// In each turn the server waits until underWay requests are in flight. Then it
	// responds to all these requests.
	var numbers []int
	for range rotations {
		var batch []request
		for len(batch) < underWay {
			select {
			case r := <-s.requests:
				batch = append(batch, r)
				numbers = append(numbers, r.number)
			case <-done:
				t.Fatalf("the load ended after %d requests: %v", len(numbers), err)
			}
		}
		for _, r := range batch {
			s.respond(r)
		}
	}
	// Each chunk of numbers is one round over the connections. The order within a round
	// is random, but a connection gets its next request only after all other connections
	// have had one.
	for round := range slices.Chunk(numbers, connections) {
		if len(slices.Compact(slices.Sorted(slices.Values(round)))) != connections {
			t.Fatalf("requests arrived on the connections in this order: %v, want each of the %d connections once per round", numbers, connections)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most != underWay {
		t.Errorf("up to %d requests were under way, want %d", s.most, underWay)
	}
}
