package app

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

func TestTheGateDetectsThatTheSuccessorsProcessHasEnded(t *testing.T) {
	gate, successor := unixPair(t)
	if isClosed(gate) {
		t.Error("the peer is there")
	}
	_ = successor.Close()
	if !isClosed(gate) {
		t.Error("the peer has ended")
	}
}

func TestASuccessorThatIsNeverReadyDoesNotBlockTheNextUpgrade(t *testing.T) {
	core, logs := logtest.New(zap.WarnLevel)
	a := &App{cfg: &config.Config{}, log: zap.New(core), gate: &exchange.Gate{}, sockets: sockets.New(zap.NewNop())}
	a.gate.Admission = a.gate.NewAdmission()
	if err := a.gate.Init(); err != nil {
		t.Fatal(err)
	}
	ln, err := a.sockets.Listen("QUEUE_SERVING_PORT", "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a.handover.init(a)
	a.handover.timeout = 50 * time.Millisecond
	for range 2 {
		running, successor := unixPair(t)
		ended := make(chan struct{})
		go func() {
			a.handover.offer(running)
			close(ended)
		}()
		received := sockets.New(zap.NewNop())
		if err := received.Receive(successor); err != nil {
			t.Fatal(err)
		}
		received.Close()
		<-ended // only now the successor becomes ready
		p := &Predecessor{path: "/drain.sock", conn: successor}
		if err := p.release(zap.NewNop()); err == nil || !strings.Contains(err.Error(), "no longer waits") {
			t.Errorf("the successor got %v", err)
		}
	}
	if n := logs.FilterMessageSnippet("not ready in time").Len(); n != 2 {
		t.Errorf("%d warnings, want 2", n)
	}
}

// unixPair returns two connected Unix sockets. They stand for the two ends of a
// connection to the drain socket.
func unixPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns[i] = conn.(*net.UnixConn)
	}
	return conns[0], conns[1]
}
