package tlsfront

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// testTimeout ends a test that hangs. No result depends on it.
const testTimeout = 2 * time.Minute

// fixture is a Front with its own directory, and a server that closes connections after
// their handshake.
type fixture struct {
	t       *testing.T
	ca      *testcert.Authority
	dir     string
	front   *Front
	budget  *exchange.Descriptors
	adopted chan string // protocols of adopted connections
	addr    string
	opened  chan struct{}
	changes chan Change
	refused chan error
}

// prepare creates a directory without a certificate, and a Config that the test may
// change.
func prepare(t *testing.T) (*fixture, Config) {
	t.Helper()
	f := &fixture{t: t, ca: testcert.New(t), dir: t.TempDir(), adopted: make(chan string, 1),
		opened: make(chan struct{}, 1), changes: make(chan Change, 100), refused: make(chan error, 1000)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = ln.Addr().String()
	t.Cleanup(func() { _ = ln.Close() })
	g := &exchange.Gate{Config: exchange.Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	server, err := server.NewServer(g, server.Config{HTTP1: closing{f, "http/1.1"}, HTTP2: closing{f, "h2"}, Upstream: upstream.Config{Address: netip.MustParseAddrPort("127.0.0.1:1")}, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	f.budget = g.Descriptors
	return f, Config{
		Dir: f.dir,
		Listen: func() (*net.TCPListener, error) {
			f.opened <- struct{}{}
			return ln.(*net.TCPListener), nil
		},
		Serve:           server.ServeTLS,
		Changed:         func(c Change) { f.changes <- c },
		HandshakeFailed: func(_ netip.AddrPort, err error) { f.refused <- err },
	}
}

// closing is a server.Protocol that closes each new connection immediately.
type closing struct {
	f    *fixture
	name string
}

func (p closing) NewEngine(w *server.Worker) server.Engine { return closingPart{p, w} }
func (closing) NumClosing() int                            { return 0 }

type closingPart struct {
	closing
	worker *server.Worker
}

func (p closingPart) Adopt(fd int, _ netip.AddrPort, _ *loop.Layer, _ []byte) {
	p.worker.Loop.CloseDescriptor(fd)
	p.f.budget.Release()
	select {
	case p.f.adopted <- p.name:
	default: // the channel is full, because this test does not read it
	}
}
func (closingPart) StopAccepting() bool           { return false }
func (closingPart) Clients() int                  { return 0 }
func (closingPart) Connector() exchange.Connector { return nil }
func (closingPart) IdleUpstreams() int            { return 0 }
func (closingPart) CloseIdleUpstreams()           {}

func (f *fixture) start(c Config) {
	f.t.Helper()
	var err error
	if f.front, err = New(c); err != nil {
		f.t.Fatal(err)
	}
	if err := f.front.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.front.Close)
}

// begin starts a Front whose directory has a certificate for the given DNS name.
func begin(t *testing.T, name string) *fixture {
	t.Helper()
	f, c := prepare(t)
	f.write(f.dir, name)
	f.start(c)
	f.change(nil)
	return f
}

// write replaces the files of the certificate and its key. The new certificate has the
// given DNS name. The key is written first, so for a moment the files do not match.
func (f *fixture) write(dir, name string) {
	f.t.Helper()
	certificate, key := f.ca.Issue(testcert.Leaf{Names: []string{name}})
	f.put(filepath.Join(dir, keyFile), key)
	f.put(filepath.Join(dir, certificateFile), certificate)
}

func (f *fixture) put(path string, b []byte) {
	f.t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// change waits for the next call of Config.Changed and returns the Change. It fails the
// test if Change.Err is not the wanted error. The value errAny stands for any error.
func (f *fixture) change(want error) Change {
	f.t.Helper()
	select {
	case c := <-f.changes:
		if (c.Err == nil) != (want == nil) || want != nil && want != errAny && !errors.Is(c.Err, want) {
			f.t.Fatalf("reported %v, want %v", c.Err, want)
		}
		return c
	case <-time.After(testTimeout):
		f.t.Fatalf("no change of the certificate, want %v", want)
		return Change{}
	}
}

var errAny = errors.New("some error")

// unchanged fails if there is a change.
func (f *fixture) unchanged() {
	f.t.Helper()
	select {
	case c := <-f.changes:
		f.t.Fatalf("reported %+v", c)
	default:
	}
}

// handshake completes a handshake and closes the connection. c may be nil.
func (f *fixture) handshake(c *tls.Config) (tls.ConnectionState, error) {
	f.t.Helper()
	if c == nil {
		c = &tls.Config{}
	}
	c.RootCAs, c.InsecureSkipVerify = f.ca.Pool(), true // accept any name, because each test uses its own
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: testTimeout}, "tcp", f.addr, c)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	// Read receives the session tickets, or the alert by which the server rejects the
	// client.
	_, err = conn.Read(make([]byte, 1))
	if err == io.EOF || errors.Is(err, unix.ECONNRESET) {
		err = nil
	}
	return conn.ConnectionState(), err
}

// serves makes a new connection. It fails the test if the server's certificate is not the
// one for the given DNS name.
func (f *fixture) serves(name string) {
	f.t.Helper()
	cs, err := f.handshake(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := cs.PeerCertificates[0].DNSNames[0]; got != name {
		f.t.Fatalf("serves %q, want %q", got, name)
	}
}
