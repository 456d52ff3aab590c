package torture

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	nethttp2 "golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// The attackers run on the gate's machine. These limits leave processor time for the
// gate and the innocent client. burstsPerSecond is a limit on all attackers together.
const (
	burstsPerSecond  = 200
	strikesPerBurst  = 400
	pauseBeforeAgain = 50 * time.Millisecond // time from the gate's close to the next connection
)

// Environment variables that make the test binary run as the attackers.
const (
	attackersMode  = "TORTURE_ATTACKERS" // address, number of connections and name of the flood
	attackersYield = "TORTURE_YIELDS"    // the lowered priority; unset = not yet lowered
)

// attackers is a process that runs a flood. Real attackers run on other machines, but
// this process shares the processors with the gate. It therefore has the lowest
// priority.
type attackers struct {
	*child
	stdin io.Closer
}

func startAttackers(t *testing.T, f *flood, connections int, addr string) *attackers {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", attackersMode, addr, connections, f.name))
	stdin, err := cmd.StdinPipe()
	must(t, err)
	p, err := launch.Start(cmd)
	must(t, err)
	t.Cleanup(p.Kill)
	return &attackers{p, stdin}
}

// haveLost reports whether the gate has closed a connection of the attackers.
func (a *attackers) haveLost() bool { return strings.Contains(a.Stdout.String(), "ended ") }

// stop ends the process, and adds its results to row.
func (a *attackers) stop(t *testing.T, row *floodRow) {
	t.Helper()
	_ = a.stdin.Close()
	if !a.EndsIn(testTimeout) || !a.Cmd.ProcessState.Success() {
		t.Errorf("the attackers failed: %s", a.Stderr.String())
	}
	for line := range strings.Lines(a.Stdout.String()) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "ended":
			row.numByEnding[rest]++
		case "bursts":
			row.bursts, _ = strconv.Atoi(rest)
		case "yields":
			row.yields = rest
		}
	}
}

func beAttackers(mode string) error {
	policy := os.Getenv(attackersYield)
	if policy == "" {
		return yieldAndStartAgain()
	}
	fields := strings.SplitN(mode, " ", 3)
	n, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	for _, f := range floods {
		if f.name == fields[2] {
			fmt.Println("yields", policy)
			f.attackAll(fields[0], n)
			return nil
		}
	}
	return fmt.Errorf("no flood %q", fields[2])
}

// yieldAndStartAgain gives the calling thread the lowest priority, and then executes
// the program again. The other threads of the Go runtime would keep their priority. All
// threads of the new program inherit the lowest one.
func yieldAndStartAgain() error {
	runtime.LockOSThread()
	policy := "SCHED_IDLE"
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		policy = "nice 19"
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
			return fmt.Errorf("lowering the priority: %w", err)
		}
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), attackersYield+"="+policy))
}

func (f *flood) attackAll(addr string, connections int) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	out := bufio.NewWriter(os.Stdout)
	var mu sync.Mutex
	say := func(label string, value any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, label, value)
		_ = out.Flush()
	}
	var all sync.WaitGroup
	tickets := make(chan struct{})
	bursts := 0
	all.Go(func() { bursts = sell(ctx, tickets) })
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				ending := f.attack(ctx, addr, tickets)
				if ctx.Err() == nil {
					say("ended", ending)
				}
				pause(ctx, pauseBeforeAgain)
			}
		})
	}
	all.Wait()
	say("bursts", bursts)
}

// sell issues up to burstsPerSecond tickets per second. A connection takes one
// for each burst of frames. sell returns the number of tickets taken.
func sell(ctx context.Context, tickets chan<- struct{}) (sold int) {
	tick := time.NewTicker(time.Second / burstsPerSecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return sold
		case <-tick.C:
			select {
			case tickets <- struct{}{}:
				sold++
			default:
			}
		}
	}
}

// attack opens a connection, and runs the flood on it until the gate ends the
// connection or ctx is done. It returns "refused" if no connection was possible.
// Otherwise it returns the error code of the gate's last GOAWAY, or "closed" if there
// was none. If ctx is done, the result has no meaning.
func (f *flood) attack(ctx context.Context, addr string, tickets <-chan struct{}) string {
	c, err := net.DialTimeout("tcp", addr, testTimeout)
	if err != nil {
		return "refused"
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	endings := make(chan string, 1)
	if f.deaf {
		_ = conn.SetReadBuffer(4 << 10)
	} else {
		go func() { endings <- readToTheEnd(conn) }()
	}
	b := append([]byte(nethttp2.ClientPreface), http2Frame(nethttp2.FrameSettings, 0, 0, "")...)
	if f.begin != nil {
		b = append(b, f.begin()...)
	}
	_, err = conn.Write(b)
	burst := f.burst
	if burst == 0 {
		burst = strikesPerBurst
	}
	for n := uint32(0); err == nil && f.strike != nil; {
		select {
		case end := <-endings:
			return end
		case <-ctx.Done():
			return ""
		case <-tickets:
		}
		b = b[:0]
		for range burst {
			b = append(b, f.strike(n)...)
			n++
		}
		_, err = conn.Write(b)
	}
	if f.deaf {
		return readToTheEnd(conn)
	}
	return <-endings
}

// readToTheEnd reads frames until the connection ends. It returns the error code of the
// last GOAWAY frame, or "closed" if there was none.
func readToTheEnd(conn net.Conn) string {
	framer := nethttp2.NewFramer(io.Discard, conn)
	ending := "closed"
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return ending
		}
		if f, ok := f.(*nethttp2.GoAwayFrame); ok {
			ending = f.ErrCode.String()
		}
	}
}
