package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// manager imitates a service manager (systemd), which holds listening sockets and
// receives notifications.
type manager struct {
	t      *testing.T
	notify *net.UnixConn
	path   string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	path := shortTempDir(t) + "/notify"
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &manager{t, l, path}
}

// nextNotification returns the next notification, and the descriptor that came with it,
// if any.
func (m *manager) nextNotification() (text string, file *os.File) {
	m.t.Helper()
	must(m.t, m.notify.SetReadDeadline(deadline()))
	b, rights := make([]byte, 256), make([]byte, 64)
	n, control, _, _, err := m.notify.ReadMsgUnix(b, rights)
	must(m.t, err)
	messages, err := unix.ParseSocketControlMessage(rights[:control])
	must(m.t, err)
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		must(m.t, err)
		file = os.NewFile(uintptr(fds[0]), "stored")
		m.t.Cleanup(func() { _ = file.Close() })
	}
	return string(b[:n]), file
}

func listeningFile(t *testing.T) (file *os.File, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	file, err = l.(*net.TCPListener).File()
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file, l.Addr().String()
}

// activate starts the gate as a service manager does, with the listening sockets from
// descriptor 3 on.
func activate(t *testing.T, env []string, files []*os.File, args ...string) *process {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", `: "${LISTEN_PID=$$}"; export LISTEN_PID; exec "$0" "$@"`, queueBinary}, args...)...)
	cmd.Env = append(slices.Clone(env), fmt.Sprintf("LISTEN_FDS=%d", len(files)))
	if i := slices.IndexFunc(env, func(s string) bool { return strings.HasPrefix(s, "LISTEN_FDS=") }); i >= 0 {
		cmd.Env = slices.Clone(env)
	}
	cmd.ExtraFiles = files
	p, err := launch.Start(cmd)
	must(t, err)
	t.Cleanup(p.Kill)
	return &process{p, t}
}

// activatedGate starts a gate with inherited sockets.
func activatedGate(t *testing.T, k *container, addr string, files []*os.File, settings ...string) *gate {
	t.Helper()
	socket := shortTempDir(t) + "/drain.sock"
	env := append(baseEnv(t), append([]string{
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)), fmt.Sprintf("USER_PORT=%d", k.port), "DRAIN_SOCKET=" + socket, "DRAIN_QUIET_SECONDS=0",
	}, settings...)...)
	g := &gate{process: activate(t, env, files), socket: socket, env: env, addr: addr}
	t.Cleanup(g.checkHealth)
	return g
}

func TestInheritedSocketsReplaceTheListenersOfTheSameName(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	serving, addr := listeningFile(t)
	admin, adminAddr := listeningFile(t)
	port := freePort(t)
	g := activatedGate(t, k, addr, []*os.File{admin, serving}, "LISTEN_FDNAMES=admin:serving", fmt.Sprintf("QUEUE_SERVING_PORT=%d", port),
		fmt.Sprintf("ADMIN_PORT=%d", freePort(t)))
	finish(inFlight(t, k, g, "/"))
	dialAddr(t, adminAddr).get("/health/alive").is(200, "Service is alive")
	if launch.Accepts(launch.Address(port)) {
		t.Errorf("the gate listens on QUEUE_SERVING_PORT=%d too", port)
	}
	for _, want := range []string{"listening on an inherited socket", fmt.Sprintf(`"QUEUE_SERVING_PORT":"%d"`, port), "ADMIN_PORT"} {
		g.logs(want)
	}
}

func TestInheritedSocketsWithoutNamesHaveAnOrder(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"", "LISTEN_FDNAMES=unknown:unknown:unknown"} {
		k := startContainer(t)
		serving, addr := listeningFile(t)
		tls, _ := listeningFile(t)
		admin, adminAddr := listeningFile(t)
		g := activatedGate(t, k, addr, []*os.File{serving, tls, admin}, fmt.Sprintf("ADMIN_PORT=%d", freePort(t)), names)
		finish(inFlight(t, k, g, "/"))
		dialAddr(t, adminAddr).get("/health/alive").is(200, "Service is alive")
	}
}

func TestSeveralEventLoopsShareAnInheritedSocket(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	serving, addr := listeningFile(t)
	g := activatedGate(t, k, addr, []*os.File{serving}, "THREADS=3")
	for range 20 {
		finish(inFlight(t, k, g, "/"))
	}
}

func TestAnInheritedSocketOfAPortThatIsOffIsClosed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	serving, addr := listeningFile(t)
	admin, _ := listeningFile(t)
	g := activatedGate(t, k, addr, []*os.File{serving, admin}, "LISTEN_FDNAMES=serving:admin", "ADMIN_PORT=0")
	finish(inFlight(t, k, g, "/"))
	g.logs("its port is off")
}

func TestBadInheritedSocketsAreStartUpErrors(t *testing.T) {
	t.Parallel()
	tcp, _ := listeningFile(t)
	second, _ := listeningFile(t)
	notListening, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	must(t, err)
	datagram, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	local, err := net.Listen("unix", shortTempDir(t)+"/s")
	must(t, err)
	defer local.Close()
	unixFile, err := local.(*net.UnixListener).File()
	must(t, err)
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	for name, c := range map[string]struct {
		files []*os.File
		env   string
		want  []string
	}{
		"the number is none":           {nil, "LISTEN_FDS=two", []string{`LISTEN_FDS="two"`, "want a whole number"}},
		"too many":                     {nil, "LISTEN_FDS=99", []string{`LISTEN_FDS="99"`}},
		"the process number is none":   {[]*os.File{tcp}, "LISTEN_PID=me", []string{`LISTEN_PID="me"`}},
		"an unknown name":              {[]*os.File{tcp}, "LISTEN_FDNAMES=http", []string{`LISTEN_FDNAMES="http"`, "serving, tls, admin"}},
		"fewer names than descriptors": {[]*os.File{tcp, second}, "LISTEN_FDNAMES=serving", []string{`LISTEN_FDNAMES="serving"`, "2 names"}},
		"a name twice":                 {[]*os.File{tcp, second}, "LISTEN_FDNAMES=serving:serving", []string{"LISTEN_FDNAMES", `two descriptors for "serving"`}},
		"a socket twice":               {[]*os.File{tcp, tcp}, "LISTEN_FDNAMES=serving:tls", []string{"descriptor 4 (tls, QUEUE_SERVING_TLS_PORT)", "the same socket as descriptor 3"}},
		"no descriptor":                {nil, "LISTEN_FDS=1", []string{"LISTEN_FDS=1", "descriptor 3", "QUEUE_SERVING_PORT"}},
		"no socket":                    {[]*os.File{null}, "", []string{"LISTEN_FDS=1", "descriptor 3 (serving, QUEUE_SERVING_PORT)"}},
		"a socket that does not listen": {[]*os.File{os.NewFile(uintptr(notListening), "tcp")}, "",
			[]string{"descriptor 3 (serving, QUEUE_SERVING_PORT)", "listen(2)"}},
		"a datagram socket":          {[]*os.File{os.NewFile(uintptr(datagram), "udp")}, "", []string{"descriptor 3 (serving", "TCP"}},
		"a Unix socket for a port":   {[]*os.File{unixFile}, "", []string{"descriptor 3 (serving", "TCP"}},
		"a TCP socket for the drain": {[]*os.File{tcp}, "LISTEN_FDNAMES=drain", []string{"descriptor 3 (drain, DRAIN_SOCKET)", "Unix"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := append(baseEnv(t), "USER_PORT="+fmt.Sprint(freePort(t)), "QUEUE_SERVING_PORT="+fmt.Sprint(freePort(t)), "DRAIN_SOCKET="+shortTempDir(t)+"/d")
			if c.env != "" {
				env = append(env, c.env)
			}
			p := activate(t, env, c.files)
			if code := p.exitCode(); code != 2 {
				t.Errorf("code %d, want 2", code)
			}
			for _, want := range c.want {
				if text := strings.ReplaceAll(p.Stderr.String(), `\"`, `"`); !strings.Contains(text, want) {
					t.Errorf("stderr lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

func TestSocketsForAnotherProcessAreIgnored(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	other, _ := listeningFile(t)
	port := freePort(t)
	g := activatedGate(t, k, launch.Address(port), []*os.File{other}, "LISTEN_PID=1", fmt.Sprintf("QUEUE_SERVING_PORT=%d", port))
	g.awaitListening()
	finish(inFlight(t, k, g, "/"))
}

func TestAnApplicationDoesNotGetTheVariablesOfTheServiceManager(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t, "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=serving", "FDSTORE=0", "NOTIFY_SOCKET="+newManager(t).path)
	if got := g.fetch("/manager"); got != "" {
		t.Errorf("the application has\n%s", got)
	}
}

func TestConnectionsBetweenTwoActivatedGatesAreServed(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	serving, addr := listeningFile(t)
	g := activatedGate(t, k, addr, []*os.File{serving})
	finish(inFlight(t, k, g, "/"))
	g.signal(syscall.SIGTERM)
	g.ends(0)
	c := dialAddr(t, addr)
	c.send(request("GET", "/between"))
	activatedGate(t, k, addr, []*os.File{serving})
	p := k.acceptFor("/between")
	finish(c, p)
}

func TestTheServiceManagerStoresListenersOnce(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	m := newManager(t)
	g := startGate(t, k, "NOTIFY_SOCKET="+m.path, "FDSTORE=16", "ADMIN_PORT=free")
	g.mayEnd = true
	stored := map[string]*os.File{}
	for {
		text, file := m.nextNotification()
		if text == "READY=1" {
			break
		}
		name, ok := strings.CutPrefix(text, "FDSTORE=1\nFDNAME=")
		if !ok || file == nil {
			t.Fatalf("systemd is told %q", text)
		}
		stored[name] = file
	}
	if len(stored) != 3 || stored["serving"] == nil || stored["admin"] == nil || stored["drain"] == nil {
		t.Fatalf("stored: %v", stored)
	}
	finish(inFlight(t, k, g, "/"))
	g.signal(syscall.SIGKILL)
	<-g.Exited
	c := dial(t, g)
	c.send(request("GET", "/between"))
	next := activatedGate(t, k, g.addr, []*os.File{stored["drain"], stored["admin"], stored["serving"]}, "LISTEN_FDNAMES=drain:admin:serving",
		"NOTIFY_SOCKET="+m.path, "FDSTORE=16", fmt.Sprintf("ADMIN_PORT=%d", freePort(t)), "DRAIN_SOCKET="+g.socket)
	p := k.acceptFor("/between")
	finish(c, p)
	if text, _ := m.nextNotification(); text != "READY=1" {
		t.Errorf("systemd is told %q, want READY=1", text)
	}
	if code, _, stderr := runQueue(t, g.env, "drain"); code != 0 {
		t.Errorf("queue drain: code %d, %s", code, stderr)
	}
	next.ends(0)
	if _, err := os.Stat(g.socket); err != nil {
		t.Errorf("the file of the stored drain socket is gone: %v", err)
	}
}
