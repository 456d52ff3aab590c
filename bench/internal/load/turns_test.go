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

// patientServer responds when the test says so.
type patientServer struct {
	port     int
	requests chan request

	mu         sync.Mutex
	unanswered int
	most       int // that were unanswered
}

// request is one of a connection, by its number.
type request struct {
	number int
	conn   net.Conn
}

func startPatient(t *testing.T) *patientServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &patientServer{port: listener.Addr().(*net.TCPAddr).Port, requests: make(chan request, 1000)}
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

func (s *patientServer) serve(r request) {
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

func (s *patientServer) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered += n
	s.most = max(s.most, s.unanswered)
}

// answer counts before it writes, so the server never counts more than the
// client has under way.
func (s *patientServer) answer(r request) {
	s.count(-1)
	io.WriteString(r.conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

func TestFewConcurrentRequestsRotateOverAllConnections(t *testing.T) {
	const (
		connections = 12
		underWay    = 4
		turns       = 10 * connections / underWay
	)
	s := startPatient(t)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := load.Start(ctx, load.Spec{Kind: load.HTTP, Port: s.port, Path: "/",
		Connections: connections, UnderWay: underWay, Threads: 1, Duration: 10 * testTimeout})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err = p.Run()
	}()
	defer func() { // the load would last for longer than anybody waits
		syscall.Kill(p.PID(), syscall.SIGKILL)
		<-ended
		p.Stop()
	}()
	// A turn is as many requests as are under way, answered together.
	var numbers []int
	for range turns {
		var turn []request
		for len(turn) < underWay {
			select {
			case r := <-s.requests:
				turn = append(turn, r)
				numbers = append(numbers, r.number)
			case <-ended:
				t.Fatalf("the load ended after %d requests: %v", len(numbers), err)
			}
		}
		for _, r := range turn {
			s.answer(r)
		}
	}
	// The order within a turn is that of the server's threads; but a connection
	// has none again before all others had one.
	for round := range slices.Chunk(numbers, connections) {
		if len(slices.Compact(slices.Sorted(slices.Values(round)))) != connections {
			t.Fatalf("requests came in this order of connections: %v, want each of %d once in each row of them", numbers, connections)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most != underWay {
		t.Errorf("up to %d requests were under way, want %d", s.most, underWay)
	}
}
