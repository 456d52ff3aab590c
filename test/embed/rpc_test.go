package embed

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/grpcgate"
)

// service is a gRPC service whose calls wait until the test continues them or their
// context ends.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	entered chan struct{}
	goOn    chan struct{}
}

func (s *service) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.entered <- struct{}{}
	select {
	case <-s.goOn:
		return &grpc_testing.SimpleResponse{Username: "hello"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// rpc is a gRPC server with an embedded gate, and its client.
type rpc struct {
	*service
	gate   *embed.Gate
	client grpc_testing.TestServiceClient
}

// transports are the ways to embed the gate in a gRPC server.
var transports = map[string]func(t *testing.T, g *embed.Gate, s *service, ln net.Listener) (shutDown func()){
	"Serve": func(t *testing.T, g *embed.Gate, s *service, ln net.Listener) func() {
		server := grpc.NewServer(grpcgate.ServerOptions(g)...)
		grpc_testing.RegisterTestServiceServer(server, s)
		done := make(chan error, 1)
		go func() { done <- server.Serve(ln) }()
		return func() {
			server.GracefulStop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	},
	"ServeHTTP": func(t *testing.T, g *embed.Gate, s *service, ln net.Listener) func() {
		calls := grpc.NewServer()
		grpc_testing.RegisterTestServiceServer(calls, s)
		server := &http.Server{Handler: g.Handler(calls), Protocols: new(http.Protocols)}
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { _ = server.Serve(ln) }()
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			if err := server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}
	},
}

func newRPC(t *testing.T, transport string, c embed.Config) *rpc {
	t.Helper()
	g, err := embed.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{entered: make(chan struct{}, 10), goOn: make(chan struct{})}
	shutDown := transports[transport](t, g, s, ln)
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		shutDown()
		if g.InFlight() != 0 {
			t.Errorf("%d in flight at the end", g.InFlight())
		}
	})
	return &rpc{s, g, grpc_testing.NewTestServiceClient(conn)}
}

func overBothTransports(t *testing.T, test func(t *testing.T, transport string)) {
	for transport := range transports {
		t.Run(transport, func(t *testing.T) { test(t, transport) })
	}
}

func field(md metadata.MD, name string) string {
	if v := md.Get(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

func TestARejectedCallGetsTheStatusOfItsOutcome(t *testing.T) {
	overBothTransports(t, func(t *testing.T, transport string) {
		r := newRPC(t, transport, embed.Config{ConcurrencyLimit: 1})
		first := make(chan error, 1)
		go func() {
			a, err := r.client.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{})
			if err == nil && a.GetUsername() != "hello" {
				err = errors.New("another response")
			}
			first <- err
		}()
		<-r.entered
		var header, trailer metadata.MD
		_, err := r.client.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		md := metadata.Join(header, trailer)
		if status.Code(err) != codes.ResourceExhausted || field(md, "k-gate-outcome") != "queue-full" ||
			field(md, "grpc-retry-pushback-ms") != "1000" || field(md, "proxy-status") == "" {
			t.Errorf("unary: %v, %v", err, md)
		}
		stream, err := r.client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		header, _ = stream.Header()
		md = metadata.Join(header, stream.Trailer())
		if status.Code(err) != codes.ResourceExhausted || field(md, "k-gate-outcome") != "queue-full" || field(md, "grpc-retry-pushback-ms") != "1000" {
			t.Errorf("stream: %v, %v", err, md)
		}
		r.goOn <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestAGRPCStreamHoldsItsSlotAndDelaysTheDrain(t *testing.T) {
	overBothTransports(t, func(t *testing.T, transport string) {
		r := newRPC(t, transport, embed.Config{ConcurrencyLimit: 1})
		stream, err := r.client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if r.gate.InFlight() != 1 {
			t.Errorf("%d in flight", r.gate.InFlight())
		}
		drained := make(chan error, 1)
		go func() { drained <- r.gate.Drain(context.Background()) }()
		<-r.gate.Draining()
		select {
		case err := <-drained:
			t.Errorf("the drain ended during the stream: %v", err)
		case <-time.After(20 * time.Millisecond): // the drain must not end in this time
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func TestTheRequestTimeoutEndsACall(t *testing.T) {
	overBothTransports(t, func(t *testing.T, transport string) {
		r := newRPC(t, transport, embed.Config{RequestTimeout: 50 * time.Millisecond})
		var header, trailer metadata.MD
		_, err := r.client.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v, %v", err, metadata.Join(header, trailer))
		}
	})
}

func TestACallThatCannotEndInTimeIsRejected(t *testing.T) {
	overBothTransports(t, func(t *testing.T, transport string) {
		requests := make(chan embed.Request, 2)
		r := newRPC(t, transport, embed.Config{ConcurrencyLimit: 1, QueueCapacity: 1, QueueDeadlineBy: "header:x-wait-ms", RequestEnded: func(x embed.Request) { requests <- x }})
		first := make(chan error, 1)
		go func() {
			_, err := r.client.UnaryCall(context.Background(), &grpc_testing.SimpleRequest{})
			first <- err
		}()
		<-r.entered
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-wait-ms", "30")
		if _, err := r.client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
		if x := <-requests; x.Outcome != "deadline-exceeded" || x.QueueWait < 30*time.Millisecond || x.Target != "/grpc.testing.TestService/UnaryCall" || !x.Peer.IsValid() {
			t.Errorf("%+v", x)
		}
		r.goOn <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestConnectRPCCallsAndStreamsPassTheGate(t *testing.T) {
	g, err := embed.New(embed.Config{ConcurrencyLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/a.A/Unary", connect.NewUnaryHandler("/a.A/Unary", func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(r.Msg), nil
	}))
	mux.Handle("/a.A/Bidi", connect.NewBidiStreamHandler("/a.A/Bidi", func(_ context.Context, s *connect.BidiStream[wrapperspb.StringValue, wrapperspb.StringValue]) error {
		for {
			m, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.Send(m); err != nil {
				return err
			}
		}
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: g.Handler(mux), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(ln) }()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport}
	defer func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := errors.Join(g.Drain(ctx), server.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
	}()
	for name, option := range map[string]connect.ClientOption{"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(), "Connect": connect.WithProtoJSON()} {
		unary := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](client, "http://"+ln.Addr().String()+"/a.A/Unary", option)
		bidi := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](client, "http://"+ln.Addr().String()+"/a.A/Bidi", option)
		if a, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello"))); err != nil || a.Msg.GetValue() != "hello" {
			t.Fatalf("%s: %v, %v", name, a, err)
		}
		stream := bidi.CallBidiStream(t.Context())
		for range 3 {
			if err := stream.Send(wrapperspb.String("hello")); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if m, err := stream.Receive(); err != nil || m.GetValue() != "hello" {
				t.Fatalf("%s: %v, %v", name, m, err)
			}
		}
		_, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello")))
		want := connect.CodeUnavailable // 503
		if name == "gRPC" {
			want = connect.CodeResourceExhausted
		}
		if connect.CodeOf(err) != want {
			t.Errorf("%s: a call during the stream got %v", name, err)
		}
		if err := errors.Join(stream.CloseRequest(), stream.CloseResponse()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for end := time.Now().Add(timeout); g.InFlight() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d in flight", name, g.InFlight())
			}
		}
	}
}
