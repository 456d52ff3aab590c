package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/proc"
	"github.com/queuegate/queuegate/bench/internal/socket"
)

// startTimeout is the maximum time until an instance is ready.
const startTimeout = 15 * time.Second

// An Instance is a running target.
type Instance struct {
	Target *Target
	// Host is the IPv4 address for the load; "" = 127.0.0.1.
	Host string
	// Port is the port for the load.
	Port int
	// PID is the id of the instance's first process.
	PID int
	// Begun is the time of the start, by package clock.
	Begun int64

	ports  map[string]int
	cmd    *exec.Cmd
	dir    string
	exited chan struct{}
}

// Start runs the target in a new directory in base. It returns when a readiness request
// has succeeded. With options.Cold, it returns as soon as the target listens.
//
// Start does not start a process if the target is Direct (no proxy) or a peer (a proxy
// that runs already). The process id of the Instance is then originPID.
func (t *Target) Start(ctx context.Context, base string, options Options, originPID int) (*Instance, error) {
	if t.Name == Direct {
		return &Instance{Target: t, Port: options.Origin, PID: originPID, Begun: clock.Now()}, nil
	}
	if t.IsPeer() {
		return &Instance{Target: t, Host: t.peer.Addr().String(), Port: int(t.peer.Port()), PID: originPID, Begun: clock.Now()}, nil
	}
	var last error
	for range 3 {
		i, err := t.Launch(base, options)
		if err != nil {
			return nil, err
		}
		if options.Cold {
			err = i.AwaitListening(ctx)
		} else {
			err = i.awaitReady(ctx, options)
		}
		if err == nil {
			return i, nil
		}
		i.Stop()
		if !errors.Is(err, errEnded) {
			return nil, err
		}
		last = err // another process may have taken a port, so try other ports
	}
	return nil, last
}

// Launch starts the target and does not wait until it is ready.
func (t *Target) Launch(base string, options Options) (*Instance, error) {
	ports, err := freePorts(t.Ports)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, t.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for %s: %w", t.Name, err)
	}
	i := &Instance{Target: t, Port: ports[ServePort], ports: ports, dir: dir, exited: make(chan struct{})}
	if err := i.launch(options); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting %s: %w", t.Name, err)
	}
	return i, nil
}

func (i *Instance) launch(options Options) error {
	r, err := i.Target.render(i.dir, i.Target.path, i.ports, options)
	if err != nil {
		return err
	}
	for name, text := range r.files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	log, err := os.Create(i.logName())
	if err != nil {
		return err
	}
	defer log.Close()
	i.cmd = exec.Command(r.argv[0], r.argv[1:]...)
	i.cmd.Dir = i.dir
	i.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + i.dir, "TMPDIR=" + i.dir}, r.env...)
	i.cmd.Stdout, i.cmd.Stderr = log, log
	// The separate process group keeps an interrupt of the terminal from the instance.
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starting() <- func() {
		i.Begun = clock.Now()
		started <- i.cmd.Start()
	}
	if err := <-started; err != nil {
		return err
	}
	i.PID = i.cmd.Process.Pid
	go i.reap()
	return nil
}

func (i *Instance) reap() {
	_ = i.cmd.Wait()
	close(i.exited)
}

func (i *Instance) logName() string { return filepath.Join(i.dir, "log") }

// starting returns a channel that accepts functions. One thread runs all these functions,
// and this thread lives as long as the harness. All instances are started on it, because
// the kernel kills an instance when the thread that started the instance ends
// (PR_SET_PDEATHSIG).
var starting = sync.OnceValue(func() chan func() {
	jobs := make(chan func())
	go serveStarts(jobs)
	return jobs
})

func serveStarts(jobs chan func()) {
	runtime.LockOSThread()
	for job := range jobs {
		job()
	}
}

var errEnded = errors.New("the process has ended")

// AwaitListening waits until the instance accepts connections. It tries every 50 µs.
func (i *Instance) AwaitListening(ctx context.Context) error {
	return i.await(ctx, "listen", 50*time.Microsecond, func() error { return tryConnect(i.Port) })
}

func (i *Instance) awaitReady(ctx context.Context, options Options) error {
	port := i.Port
	if p, ok := i.ports[readyPort]; ok && options.H2Clients {
		port = p
	}
	return i.await(ctx, "respond to "+i.Target.Ready+" with 200", time.Millisecond, func() error {
		status, err := Ask(port, i.Target.Ready, time.Second)
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

func (i *Instance) await(ctx context.Context, description string, pause time.Duration, try func() error) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-i.exited:
			return fmt.Errorf("%s: %w: %s", i.Target.Name, errEnded, i.Log())
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not %s within %v: %w: %s", i.Target.Name, description, startTimeout, err, i.Log())
		}
		time.Sleep(pause)
	}
}

// Log returns the last line of the instance's output that mentions an error, or the last
// line if there is none.
func (i *Instance) Log() string {
	text, _ := os.ReadFile(i.logName())
	return lastWords(string(text))
}

func lastWords(log string) string {
	const most = 500
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := lines[len(lines)-1]
	for _, line := range slices.Backward(lines) {
		if low := strings.ToLower(line); strings.Contains(low, "error") || strings.Contains(low, "alert") || strings.Contains(low, "fail") {
			last = line
			break
		}
	}
	return last[:min(len(last), most)]
}

// Processes returns the ids of the instance's processes.
func (i *Instance) Processes() ([]int, error) { return proc.Tree(i.PID) }

// ProfilePort returns the port of the pprof pages, or 0.
func (i *Instance) ProfilePort() int {
	if i.Target.Profile == nil {
		return 0
	}
	return i.ports[i.Target.Profile.Port]
}

// PortOf returns the port with this name, or 0.
func (i *Instance) PortOf(name string) int { return i.ports[name] }

func (i *Instance) Alive() bool {
	if i.cmd == nil {
		return true
	}
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

// Stop kills all processes of the instance, waits for their exit, and removes the
// instance's directory. It may be called again.
func (i *Instance) Stop() {
	if i.cmd == nil {
		return
	}
	pids, _ := i.Processes()
	_ = syscall.Kill(-i.PID, syscall.SIGKILL) // the process group
	<-i.exited
	// Killed processes with another parent may take a moment to be reaped.
	for deadline := time.Now().Add(2 * time.Second); slices.ContainsFunc(pids, alive) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	os.RemoveAll(i.dir)
}

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := p.Stat()
	return err == nil && stat.State != "Z"
}

// lowestPort is above the usual ports of services.
const lowestPort = 10_000

// usedPorts are the recently assigned ports. They are not assigned again, because a starting
// target may not have bound its ports yet.
var (
	usedPortsMu sync.Mutex
	usedPorts   = map[int]bool{}
)

// freePorts returns a free port for each name, below the kernel's range for outgoing
// connections.
func freePorts(names []string) (map[string]int, error) {
	usedPortsMu.Lock()
	defer usedPortsMu.Unlock()
	end := ephemeralStart()
	if len(usedPorts) > (end-lowestPort)/2 {
		// More than half of the ports have been assigned, so allow all of them again.
		// In the meantime, earlier targets have bound or released their ports. A port
		// that is still bound is not assigned, because the attempt to bind it below
		// fails.
		clear(usedPorts)
	}
	ports := map[string]int{}
	for attempts := 0; len(ports) < len(names); attempts++ {
		candidate := lowestPort + rand.IntN(end-lowestPort)
		if usedPorts[candidate] {
			continue
		}
		fd, port, err := socket.Bind(candidate)
		if err == nil {
			defer socket.Close(fd)
			ports[names[len(ports)]] = port
			usedPorts[port] = true
		} else if attempts > 100*len(names) {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
	}
	return ports, nil
}

// ephemeralStart returns the first port of net.ipv4.ip_local_port_range.
func ephemeralStart() int {
	const customary = 32768
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return customary
	}
	if span, err := fs.SysctlInts("net.ipv4.ip_local_port_range"); err == nil && span[0] > lowestPort {
		return span[0]
	}
	return customary
}

// tryConnect connects to a port of 127.0.0.1 and closes the connection.
func tryConnect(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

// Ask sends a GET to a port of 127.0.0.1 on a new connection, and returns the status. The
// argument fields holds additional lines for the head, such as "User-Agent: x".
func Ask(port int, path string, timeout time.Duration, fields ...string) (status int, err error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), timeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	var head strings.Builder
	for _, f := range fields {
		head.WriteString(f + "\r\n")
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n%s\r\n", path, &head); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	return response.StatusCode, nil
}
