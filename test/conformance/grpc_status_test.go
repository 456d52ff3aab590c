package conformance

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// hangs is a service whose calls wait for their cancellation.
func hangs(arrived chan<- struct{}) *service {
	hang := func(ctx context.Context) error {
		arrived <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	return &service{
		unary: hang,
		stream: func(b grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
			if err := b.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
			return hang(b.Context())
		},
	}
}

func TestRejectionsReachAGRPCClientAsItsStatus(t *testing.T) {
	t.Parallel()
	t.Run("queue full", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{}, 10)
		g := startGate(t, serveService(t, hangs(arrived)).port, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=0")
		go func() { _, _ = stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{}) }()
		receiveIn(t, "the first call", arrived)
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		wantCode(t, err, codes.ResourceExhausted, "pending request queue full")
	})
	t.Run("queue wait expired", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{}, 10)
		g := startGate(t, serveService(t, hangs(arrived)).port, "CONTAINER_CONCURRENCY=1", "QUEUE_MAX_WAIT=50ms")
		go func() { _, _ = stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{}) }()
		receiveIn(t, "the first call", arrived)
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		wantCode(t, err, codes.ResourceExhausted, "queue wait expired")
	})
	t.Run("not listening", func(t *testing.T) {
		t.Parallel()
		g := startGate(t, launch.FreePort(t), "UPSTREAM_WAIT=50ms")
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		wantCode(t, err, codes.Unavailable, "user container is not listening")
	})
	for _, timeout := range []string{"REVISION_TIMEOUT_SECONDS=1", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1", "REVISION_IDLE_TIMEOUT_SECONDS=1"} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			g := startGate(t, serveService(t, hangs(make(chan struct{}, 10))).port, timeout)
			_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
			wantCode(t, err, codes.DeadlineExceeded, "request timeout")
		})
	}
	t.Run("plaintext where only TLS is served", func(t *testing.T) {
		t.Parallel()
		g := startGate(t, serveService(t, &service{}).port, "TLS_ONLY=true", "QUEUE_SERVING_TLS_PORT="+itoa(launch.FreePort(t)))
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		wantCode(t, err, codes.PermissionDenied, "only TLS is served here")
	})
}

func TestAGRPCClientGetsAGRPCStatusForAnUpstreamFailure(t *testing.T) {
	t.Parallel()
	t.Run("the container dies before it responds", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{}, 10)
		c := serveService(t, hangs(arrived))
		g := startGate(t, c.port)
		failed := make(chan error, 1)
		go func() {
			_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
			failed <- err
		}()
		receiveIn(t, "the call", arrived)
		c.kill()
		wantCode(t, receiveIn(t, "its end", failed), codes.Internal, "upstream")
	})
	t.Run("the container dies in the middle of a stream", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{}, 10)
		c := serveService(t, hangs(arrived))
		g := startGate(t, c.port)
		s := begin(t, testContext(t), g)
		receiveIn(t, "the call", arrived)
		c.kill()
		_, err := s.Recv()
		wantCode(t, err, codes.Internal, "upstream broke off")
	})
	for _, timeout := range []string{"REVISION_TIMEOUT_SECONDS=1", "REVISION_IDLE_TIMEOUT_SECONDS=1"} {
		t.Run(timeout+" in the middle of a stream", func(t *testing.T) {
			t.Parallel()
			g := startGate(t, serveService(t, hangs(make(chan struct{}, 10))).port, timeout)
			client := stub(t, g)
			// On a busy machine the timeout may end a stream before its first message.
			eventually(t, "a stream has begun when its timeout expires", func() bool {
				s, err := client.FullDuplexCall(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Recv()
				begun := err == nil
				if begun {
					_, err = s.Recv()
				}
				wantCode(t, err, codes.DeadlineExceeded, "request timeout")
				return begun || t.Failed()
			})
		})
	}
	t.Run("the container resets the stream", func(t *testing.T) {
		t.Parallel()
		g := startGate(t, resetting(t))
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		wantCode(t, err, codes.Internal, "upstream reset the connection")
	})
	t.Run("the second signal cuts a stream", func(t *testing.T) {
		t.Parallel()
		g := startGateThatMayExit(t, serveService(t, hangs(make(chan struct{}, 10))).port)
		s := begin(t, testContext(t), g)
		g.drain()
		eventually(t, "draining", func() bool { return !g.ready() })
		g.drain()
		if _, err := s.Recv(); status.Code(err) == codes.OK || errors.Is(err, io.EOF) {
			t.Errorf("%v: want an error", err)
		}
	})
}

// begin opens a stream and reads the first message.
func begin(t *testing.T, ctx context.Context, g *gate) grpc.BidiStreamingClient[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse] {
	t.Helper()
	s, err := stub(t, g).FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACancelledCallIsCancelledAtTheContainerImmediately(t *testing.T) {
	t.Parallel()
	arrived, endTime := make(chan struct{}, 1), make(chan time.Time, 1)
	c := serveService(t, &service{unary: func(ctx context.Context) error {
		arrived <- struct{}{}
		<-ctx.Done()
		endTime <- time.Now()
		return ctx.Err()
	}})
	g := startGate(t, c.port)
	client := stub(t, g)
	// A busy machine may delay some attempts.
	eventually(t, "the container receives a cancellation within 10 ms", func() bool {
		ctx, cancel := context.WithCancel(testContext(t))
		failed := make(chan error, 1)
		go func() {
			_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{})
			failed <- err
		}()
		receiveIn(t, "the call", arrived)
		at := time.Now()
		cancel()
		took := receiveIn(t, "the cancellation at the container", endTime).Sub(at)
		wantCode(t, receiveIn(t, "the end of the call", failed), codes.Canceled, "")
		return took <= 10*time.Millisecond
	})
}

func TestADeadlineReachesTheContainer(t *testing.T) {
	t.Parallel()
	remaining := make(chan time.Duration, 1000)
	c := serveService(t, &service{unary: func(ctx context.Context) error {
		deadline, ok := ctx.Deadline()
		if !ok {
			remaining <- time.Hour // no deadline
			return nil
		}
		remaining <- time.Until(deadline)
		<-ctx.Done()
		return ctx.Err()
	}})
	g := startGate(t, c.port)
	client := stub(t, g)
	// On a busy machine the deadline may pass before the call reaches the container.
	eventually(t, "a call reaches the container before its deadline", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{})
		wantCode(t, err, codes.DeadlineExceeded, "")
		select {
		case got := <-remaining:
			if got > time.Second {
				t.Errorf("the container had %v left, want up to 1s", got)
			}
			return got > 0 || t.Failed()
		default:
			return t.Failed()
		}
	})
}

func TestACallThatIsQueuedForTheContainerSucceeds(t *testing.T) {
	t.Parallel()
	port := launch.FreePort(t)
	g := startGate(t, port)
	failed := make(chan error, 1)
	go func() {
		_, err := stub(t, g).UnaryCall(testContext(t), &testpb.SimpleRequest{})
		failed <- err
	}()
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, &service{})
	listenAt(t, port, s)
	if err := receiveIn(t, "the answer", failed); err != nil {
		t.Error(err)
	}
}

func TestADrainLosesNoCall(t *testing.T) {
	t.Parallel()
	g := startGateThatMayExit(t, serveService(t, &service{}).port, "DRAIN_QUIET_SECONDS=1")
	client := stub(t, g)
	s, err := client.FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	exchange := func() error {
		if err := s.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			return err
		}
		_, err := s.Recv()
		return err
	}
	if err := exchange(); err != nil {
		t.Fatal(err)
	}
	g.drain()
	for range 50 { // the client reconnects after each GOAWAY
		if _, err := client.UnaryCall(testContext(t), &testpb.SimpleRequest{}); err != nil {
			t.Fatalf("a call while draining: %v", err)
		}
	}
	if err := exchange(); err != nil {
		t.Fatalf("the open stream: %v", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream: %v", err)
	}
	receiveIn(t, "the exit of the gate", g.Exited)
	if code := g.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
