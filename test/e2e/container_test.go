package e2e

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/test/e2e/remote"
)

// container is the scripted container, in a separate process.
type container struct {
	*process
	*remote.Client
	port int
}

func startContainer(t *testing.T) *container {
	t.Helper()
	k := startSilentContainer(t)
	k.listen()
	return k
}

// startSilentContainer starts a container that does not listen yet.
func startSilentContainer(t *testing.T) *container {
	t.Helper()
	path := filepath.Join(shortTempDir(t), "control.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &container{process: startProcess(t, nil, containerBinary, path)}
	if err := l.(*net.UnixListener).SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	control, err := l.Accept()
	if err != nil {
		t.Fatalf("waiting for the container: %v; stderr:\n%s", err, k.Stderr.String())
	}
	k.Client = remote.NewClient(control)
	t.Cleanup(func() { _ = k.Client.Close() })
	if k.port, err = k.Port(); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *container) listen() {
	k.t.Helper()
	must(k.t, k.Listen())
}

func (k *container) unlisten() {
	k.t.Helper()
	must(k.t, k.Unlisten())
}

// accept waits for the next connection that carries a request.
func (k *container) accept() *peer {
	k.t.Helper()
	c, err := k.Accept()
	if err != nil {
		k.t.Fatalf("the container waits for a request: %v", err)
	}
	return &peer{end: newEnd(k.t, "container", c), conn: c}
}

// unseen fails if the container has a request that accept has not returned.
func (k *container) unseen(description string) {
	k.t.Helper()
	n, err := k.Counts()
	must(k.t, err)
	if n.Waiting > 0 {
		k.t.Fatalf("%s reached the container: %q", description, k.accept().some())
	}
}

// peer is the container's end of a connection.
type peer struct {
	*end
	conn *remote.Conn
}

func (p *peer) close()      { p.t.Helper(); must(p.t, p.conn.Close()) }
func (p *peer) abort()      { p.t.Helper(); must(p.t, p.conn.Abort()) }
func (p *peer) closeWrite() { p.t.Helper(); must(p.t, p.conn.CloseWrite()) }

// awaitClose discards bytes until the gate has closed or reset the connection, and
// returns the time.
func (p *peer) awaitClose() time.Time {
	p.t.Helper()
	p.readAll()
	st, err := p.conn.State()
	must(p.t, err)
	if st.EndKind != remote.EOF && st.EndKind != remote.Reset {
		p.t.Fatalf("the container's connection ended with %q", st.EndKind)
	}
	return time.Unix(0, st.EndedAt)
}

func must(t *testing.T, err error) { t.Helper(); testkit.Must(t, err) }

// isReset reports whether err is a reset instead of an orderly close.
func isReset(err error) bool {
	e, ok := asErrno(err)
	return ok && (e == syscall.ECONNRESET || e == syscall.EPIPE)
}
