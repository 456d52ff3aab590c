package torture

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
	"github.com/queuegate/queuegate/test/torture/script"
)

// budget is an experiment: an attack on a limited resource, during which the gate must
// serve an honest client.
type budget struct {
	name     string
	settings []string
	memory   int64 // memory limit of the gate's control group; 0 = none
	ceiling  int64 // maximum RSS of the gate in bytes; 0 = not checked
	tls      bool
	time     time.Duration // duration at full scale
	// attack runs until ctx is done, and returns the number of attacks.
	attack func(ctx context.Context, g *gate) int
}

const mebibyte = 1 << 20

func TestAnHonestClientIsServedDuringAttacksOnItsResources(t *testing.T) {
	attackers, back := scaled(2000, 150), scaledTime(comeBack, 500*time.Millisecond)
	for _, b := range []budget{
		{name: "heads without end, 64 MiB", memory: 64 * mebibyte, ceiling: ceiling(16*mebibyte, attackers), time: time.Minute, attack: holders(attackers, back, endlessHead)},
		{name: "slow readers, 64 MiB", memory: 64 * mebibyte, ceiling: ceiling(16*mebibyte, attackers/2), time: time.Minute, attack: holders(attackers/2, back, slowReader)},
		{name: "heads without end", ceiling: ceiling(16*mebibyte, attackers/2), time: 15 * time.Second, attack: holders(attackers/2, back, endlessHead)},
		{name: "heads without end, HEAD_MEMORY 4 MiB", settings: []string{"HEAD_MEMORY=4194304"}, ceiling: ceiling(4*mebibyte, attackers/2), time: 15 * time.Second, attack: holders(attackers/2, back, endlessHead)},
		{name: "slow readers with heads of 900 KB", ceiling: ceiling(16*mebibyte, attackers/4), time: 15 * time.Second, attack: holders(attackers/4, back, slowReaderWithALongHead)},
		{name: "slow readers", ceiling: ceiling(16*mebibyte, attackers/2), time: 15 * time.Second, attack: holders(attackers/2, back, slowReader)},
		{name: "silent connections, ulimit 64", settings: []string{"ulimit -n 64"}, time: 15 * time.Second, attack: holders(600, time.Second, silent)},
		{name: "silent connections, ulimit 256", settings: []string{"ulimit -n 256"}, time: 15 * time.Second, attack: holders(600, time.Second, silent)},
		{name: "silent TLS, 300/s", tls: true, time: 15 * time.Second, attack: silentTLS(0, 300)},
		{name: "silent TLS, 600/s", tls: true, time: 15 * time.Second, attack: silentTLS(0, 600)},
		{name: "silent TLS, many at once", tls: true, time: 15 * time.Second, attack: silentTLS(scaled(5000, 500), 0)},
		{name: "expensive heads, 20/s", time: 15 * time.Second, attack: expensiveHeads},
	} {
		t.Run(b.name, func(t *testing.T) { b.run(t) })
	}
}

// ceiling returns the maximum RSS of the gate in bytes, by the formula in
// docs/design.md. The parameter headMemory is the setting HEAD_MEMORY in bytes. The
// parameter underWay is the number of active connections.
func ceiling(headMemory int64, underWay int) int64 {
	return 16*mebibyte + 2*(2*headMemory+8*mebibyte) + int64(underWay)*24<<10
}

// memoryBack is the maximum time from the end of an attack until memory use is back at
// its level before the attack.
//
// slower is the maximum factor by which an attack may slow the honest client. The test
// compares the client's p99 during the attack with the larger of two values: its p99
// before the attack, and the p99 of a client that bypasses the gate during the attack.
const (
	memoryBack = 10 * time.Second
	slower     = 5
)

func (b budget) run(t *testing.T) {
	row := budgetRow{name: b.name}
	settings := append(b.settings, "REVISION_TIMEOUT_SECONDS=300")
	var group *memoryGroup
	if b.memory > 0 {
		var err error
		if group, err = newMemoryGroup(t, b.memory); err == nil {
			settings = append(settings, "cgroup "+group.dir)
		} else {
			row.skipped = err.Error()
			settings = append(settings, fmt.Sprintf("GOMEMLIMIT=%d", b.memory*3/4))
		}
	}
	if b.tls {
		settings = append(settings, "CERT_DIR="+certificate(t))
	}
	k := startContainer(t, "http1", newLedger(t).write)
	direct := &honest{addr: launch.Address(k.port)}
	g := startGate(t, k.port, settings...)
	addr := g.addr
	if b.tls {
		addr = g.tls
	}
	before := &honest{addr: addr, tls: b.tls}
	before.run(scaledTime(3*time.Second, 300*time.Millisecond))
	rest := g.rss()

	ctx, cancel := context.WithTimeout(context.Background(), scaledTime(b.time, time.Second))
	defer cancel()
	var attackers sync.WaitGroup
	attackers.Go(func() { row.attacks = b.attack(ctx, g) })
	during := &honest{addr: addr, tls: b.tls, watch: func() { row.peak = max(row.peak, g.rss()) }}
	attackers.Go(func() {
		for ctx.Err() == nil {
			direct.run(100 * time.Millisecond)
		}
	})
	for ctx.Err() == nil {
		during.run(100 * time.Millisecond)
	}
	attackers.Wait()
	endTime := time.Now()

	if !g.Running() {
		t.Fatalf("the gate died: %v\n%s", g.Cmd.ProcessState, g.Stderr.String())
	}
	slack := float64(rssSlack)
	if b.ceiling > 0 {
		slack = 12
	}
	if !eventually(func() bool { row.afterAttack = g.rss(); return row.afterAttack <= rest+slack }) {
		t.Errorf("RSS %.1f MiB at rest, %.1f before", row.afterAttack, rest)
	}
	row.back = time.Since(endTime).Round(100 * time.Millisecond)
	row.ceiling = float64(b.ceiling) / mebibyte
	if b.ceiling > 0 && row.peak > row.ceiling {
		t.Errorf("RSS %.1f MiB, the ceiling is %.1f", row.peak, row.ceiling)
	}
	if group != nil {
		row.peak = max(row.peak, group.mebibytes(group.peak))
	}
	row.honest, row.failed = len(before.took)+len(during.took), before.failed+during.failed
	row.beforeAttack, row.during, row.direct = quantilesOf(before.took), quantilesOf(during.took), quantilesOf(direct.took)
	if scale == 1 { // a shorter run has too few requests for a p99
		if most := slower * max(row.beforeAttack.p99, row.direct.p99); row.during.p99 > most {
			t.Errorf("the honest client's p99 is %v, was %v; %v without the gate", row.during.p99, row.beforeAttack.p99, row.direct.p99)
		}
		if row.back > memoryBack {
			t.Errorf("memory was back after %v", row.back)
		}
	}
	budgets = append(budgets, row)
	for _, reason := range append(before.reasons, during.reasons...) {
		t.Errorf("the honest client: %s", reason)
	}
	if fault := g.Fault(); fault != "" {
		t.Errorf("the gate reported: %s", fault)
	}
	if row.skipped != "" {
		t.Logf("left out: %s", row.skipped)
	}
}

// honest is a client that opens a connection for each request.
type honest struct {
	addr    string
	tls     bool
	watch   func()
	took    []time.Duration
	failed  int
	reasons []string // reasons of the first failures
}

func (h *honest) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		began := time.Now()
		err := h.sendRequest()
		h.took = append(h.took, time.Since(began))
		if err != nil {
			if h.failed++; h.failed <= 5 {
				h.reasons = append(h.reasons, fmt.Sprintf("request %d: %v", len(h.took), err))
			}
		}
		if h.watch != nil {
			h.watch()
		}
	}
}

// silence is the time after which a gate without free descriptors may close a silent
// connection (docs/descriptors.md).
const silence = 10 * time.Millisecond

// sendRequest sends a request, and checks the response. On a busy machine, some time may
// pass before the request is sent, and the gate may close the silent connection. In this
// case once tries again. It makes at most 20 attempts in all.
func (h *honest) sendRequest() (err error) {
	for range 20 {
		c := &timedConn{began: time.Now()}
		var all []byte
		if all, err = h.exchange(c); err == nil && bytes.HasPrefix(all, []byte("HTTP/1.1 200 OK\r\n")) && bytes.Contains(all, []byte("\r\n\r\n0 0 00000000\n")) {
			return nil
		}
		if len(all) > 0 || c.silent < silence {
			return fmt.Errorf("got %.200q, %v; silent for %v", all, err, c.silent)
		}
	}
	return fmt.Errorf("gave up retrying: %v", err)
}

func (h *honest) exchange(c *timedConn) (all []byte, err error) {
	if c.Conn, err = net.DialTimeout("tcp", h.addr, testTimeout); err != nil {
		return nil, err
	}
	defer c.Conn.Close()
	_ = c.Conn.SetDeadline(time.Now().Add(testTimeout))
	var conn net.Conn = c
	if h.tls {
		conn = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: honest\r\nConnection: close\r\n"+script.ID+": 0\r\n"+script.Size+": 100\r\n\r\n"); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}

// timedConn is a connection that measures how long it is silent at first. It measures the
// time from the start of the dial to the end of the first write.
type timedConn struct {
	net.Conn
	began  time.Time
	silent time.Duration
}

func (c *timedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.silent == 0 {
		c.silent = time.Since(c.began)
	}
	return n, err
}

// comeBack is the time until an attacker reconnects. Without it attackers would use most
// of the processors.
const comeBack = 10 * time.Second

// holders returns an attack by n attackers, each with one connection at a time. The
// function holdConn uses a connection until it ends. The attacker then pauses before it
// connects again. The second parameter is the duration of the pause. The first
// connections of the attackers are spread evenly over the same duration.
func holders(n int, back time.Duration, holdConn func(context.Context, *net.TCPConn)) func(context.Context, *gate) int {
	return func(ctx context.Context, g *gate) int {
		var struck atomic.Int64
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				pause(ctx, back*time.Duration(i)/time.Duration(n))
				for ctx.Err() == nil {
					dialer := net.Dialer{Timeout: testTimeout}
					if conn, err := dialer.DialContext(ctx, "tcp", g.addr); err == nil {
						struck.Add(1)
						stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
						holdConn(ctx, conn.(*net.TCPConn))
						stop()
						_ = conn.Close()
					}
					pause(ctx, back)
				}
			})
		}
		all.Wait()
		return int(struck.Load())
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func endlessHead(_ context.Context, conn *net.TCPConn) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: "); err != nil {
		return
	}
	piece := bytes.Repeat([]byte("a"), 10_000)
	for range 100 {
		if _, err := conn.Write(piece); err != nil {
			return
		}
	}
	silent(context.Background(), conn)
}

func silent(_ context.Context, conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }

func slowReader(ctx context.Context, conn *net.TCPConn) { readSlowly(ctx, conn, "") }

// slowReaderWithALongHead sends a head of 900 KB.
func slowReaderWithALongHead(ctx context.Context, conn *net.TCPConn) {
	readSlowly(ctx, conn, "X: "+strings.Repeat("a", 900_000)+"\r\n")
}

func readSlowly(ctx context.Context, conn *net.TCPConn, lines string) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n"+lines+script.ID+": 0\r\n"+script.Size+": 100000000\r\n\r\n"); err != nil {
		return
	}
	for spoon := make([]byte, 1024); ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		if _, err := conn.Read(spoon); err != nil {
			return
		}
	}
}

// silentTLS returns an attack that connects to the TLS port, and never starts a
// handshake. The parameter atOnce is the number of connections that the attack opens
// immediately. The parameter perSecond is the number that it then opens in each second.
// The attack closes the connections only at its end, but the gate may close them earlier.
func silentTLS(atOnce, perSecond int) func(context.Context, *gate) int {
	return func(ctx context.Context, g *gate) int {
		var conns []net.Conn
		began := time.Now()
		for ctx.Err() == nil {
			due := atOnce + int(time.Since(began).Seconds()*float64(perSecond))
			for len(conns) < due && ctx.Err() == nil {
				conn, err := (&net.Dialer{Timeout: testTimeout}).DialContext(ctx, "tcp", g.tls)
				if err != nil {
					break
				}
				conns = append(conns, conn)
			}
			pause(ctx, 5*time.Millisecond)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		return len(conns)
	}
}

// expensiveHeads sends heads of almost 1 MiB that are expensive to parse.
func expensiveHeads(ctx context.Context, g *gate) int {
	var options, addresses strings.Builder
	for n := 0; options.Len() < 1_000_000; n++ {
		options.WriteString("o" + strconv.Itoa(n) + ",")
	}
	for n := 0; addresses.Len() < 1_000_000; n++ {
		fmt.Fprintf(&addresses, "10.%d.%d.%d, ", n>>16&255, n>>8&255, n&255)
	}
	shapes := []string{
		"Connection: " + options.String(), "Connection: " + strings.Repeat("a,", 500_000),
		"X-Forwarded-For: " + addresses.String(), "Cookie: " + strings.Repeat("a=b; ", 200_000),
	}
	var all sync.WaitGroup
	n := 0
	for ; ctx.Err() == nil; n++ {
		shape := shapes[n%len(shapes)]
		all.Go(func() {
			conn, err := net.DialTimeout("tcp", g.addr, testTimeout)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testTimeout))
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+shape+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		})
		pause(ctx, 50*time.Millisecond)
	}
	all.Wait()
	return n
}
