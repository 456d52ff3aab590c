package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// service is a gRPC container, which echoes the payloads of its calls. A test can set two
// functions. UnaryCall calls the first one before it responds, and returns its error, if
// any. FullDuplexCall calls the second one instead of echoing.
type service struct {
	testpb.UnimplementedTestServiceServer
	unary  func(context.Context) error
	stream func(grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error
}

func (s *service) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &testpb.SimpleResponse{Payload: r.Payload}, nil
}

func (s *service) FullDuplexCall(b grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	if s.stream != nil {
		return s.stream(b)
	}
	for {
		r, err := b.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.Send(&testpb.StreamingOutputCallResponse{Payload: r.Payload})
		}
		if err != nil {
			return err
		}
	}
}

// grpcContainer serves the test service. kill closes its connections.
type grpcContainer struct {
	port int
	srv  *grpc.Server

	mu    sync.Mutex
	conns []net.Conn
}

func (c *grpcContainer) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

type keeping struct {
	net.Listener
	c *grpcContainer
}

func (k keeping) Accept() (net.Conn, error) {
	conn, err := k.Listener.Accept()
	if err == nil {
		k.c.mu.Lock()
		k.c.conns = append(k.c.conns, conn)
		k.c.mu.Unlock()
	}
	return conn, err
}

func serveService(t *testing.T, s *service) *grpcContainer {
	t.Helper()
	ln, err := net.Listen("tcp", podAddress(0))
	if err != nil {
		t.Fatal(err)
	}
	c := &grpcContainer{port: ln.Addr().(*net.TCPAddr).Port, srv: grpc.NewServer()}
	testpb.RegisterTestServiceServer(c.srv, s)
	go func() { _ = c.srv.Serve(keeping{ln, c}) }() // returns after Stop
	t.Cleanup(c.srv.Stop)
	return c
}

// stub returns a client with a separate connection.
func stub(t *testing.T, g *gate) testpb.TestServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+g.address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// wantCode fails the test unless the error has the wanted gRPC code, and the error's
// message contains the wanted text.
func wantCode(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || !strings.Contains(s.Message(), message) {
		t.Errorf("%v, want %v with %q", err, code, message)
	}
}

func receiveIn[T any](t *testing.T, description string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testTimeout):
		t.Fatalf("timed out waiting for %s", description)
	}
	return v
}
