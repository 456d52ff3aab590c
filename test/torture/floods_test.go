package torture

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	nethttp2 "golang.org/x/net/http2"

	"github.com/queuegate/queuegate/test/internal/launch"
	"github.com/queuegate/queuegate/test/torture/script"
)

// flood is an attack over HTTP/2 that costs the attacker very little. On each
// connection the attacker first sends the bytes that the function begin returns. Then
// it sends bursts of the bytes that the function strike returns, until the gate ends
// the connection. If strike is nil, the attacker sends nothing more, and keeps the
// connection open.
type flood struct {
	name      string
	faultKind string // label of queuegate_http2_faults_total; "" = no limit is violated
	container string // protocol of the container; "" = http1
	deaf      bool   // the attacker reads nothing
	begin     func() []byte
	strike    func(n uint32) []byte
	burst     int // strikes per burst; 0 = 400

	// costly marks an attack that once exceeded the limit on memory growth. So even a
	// short run of the tests also runs this attack with 24 connections, and waits until
	// all streams of the attack are open.
	costly bool
}

// maxGrowth is the maximum growth of RSS in MiB.
const maxGrowth = 20

func http2Frame(t nethttp2.FrameType, flags nethttp2.Flags, id uint32, payload string) []byte {
	b := append([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), byte(t), byte(flags)}, number(id)...)
	return append(b, payload...)
}

func number(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// Field blocks of GET and POST for / at host h.
const (
	getHead  = "\x82\x86\x84\x01\x01h"
	postHead = "\x83\x86\x84\x01\x01h"
)

// literal encodes a field that is not indexed.
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

func opened(id uint32, head string, end bool) []byte {
	flags := nethttp2.FlagHeadersEndHeaders
	if end {
		flags |= nethttp2.FlagHeadersEndStream
	}
	return http2Frame(nethttp2.FrameHeaders, flags, id, head)
}

// windows requests 250 responses of 1 MB with an initial window of n octets.
func windows(n uint32) func() []byte {
	return func() []byte {
		return join(
			http2Frame(nethttp2.FrameSettings, 0, 0, "\x00\x04"+number(n)),
			http2Frame(nethttp2.FrameWindowUpdate, 0, 0, number(1<<30)),
			streams(func(id uint32) []byte { return encodeRequest(id, script.Echo, 1_000_000) })())
	}
}

// encodeRequest encodes a request for a certain response.
func encodeRequest(id uint32, do string, size int) []byte {
	return opened(id, getHead+literal(strings.ToLower(script.ID), "0")+literal(strings.ToLower(script.Do), do)+
		literal(strings.ToLower(script.Size), strconv.Itoa(size)), true)
}

func streams(one func(id uint32) []byte) func() []byte {
	return func() (b []byte) {
		for i := range uint32(250) {
			b = append(b, one(2*i+1)...)
		}
		return b
	}
}

// strikesAt sends each strike on a new stream.
func strikesAt(strike func(id uint32) []byte) func(uint32) []byte {
	return func(n uint32) []byte { return strike(2*n + 601) }
}

func constantFrame(t nethttp2.FrameType, flags nethttp2.Flags, id uint32, payload string) func(uint32) []byte {
	frame := http2Frame(t, flags, id, payload)
	return func(uint32) []byte { return frame }
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func upload() []byte { return opened(1, postHead, false) }

// bomb refers to one large entry of the dynamic table many times.
func bomb(id uint32, references int) []byte {
	entry := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("y", 4000)
	return opened(id, getHead+entry+strings.Repeat("\xbe", references), true)
}

var floods = []flood{
	{name: "rapid reset", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, getHead, true), http2Frame(nethttp2.FrameRSTStream, 0, id, number(8)))
	})},
	{name: "made: WINDOW_UPDATE of 0", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, postHead, false), http2Frame(nethttp2.FrameWindowUpdate, 0, id, number(0)))
	})},
	{name: "made: window overflow", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, postHead, false), http2Frame(nethttp2.FrameWindowUpdate, 0, id, number(1<<31-1)))
	})},
	{name: "made: HEADERS, half-closed", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, getHead, true), opened(id, getHead, true))
	})},
	{name: "made: DATA, half-closed", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, getHead, true), http2Frame(nethttp2.FrameData, 0, id, "x"))
	})},
	{name: "made: PRIORITY of 1 octet", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, postHead, false), http2Frame(nethttp2.FramePriority, 0, id, "x"))
	})},
	{name: "made: self-dependency", faultKind: "resets", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, postHead, false), http2Frame(nethttp2.FramePriority, 0, id, number(id)+"\x10"))
	})},
	{name: "CONTINUATION", faultKind: "header-block", begin: func() []byte { return http2Frame(nethttp2.FrameHeaders, 0, 1, getHead) },
		strike: constantFrame(nethttp2.FrameContinuation, 0, 1, strings.Repeat(literal("x", "y"), 100)), burst: 40},
	{name: "empty CONTINUATION", faultKind: "header-block", begin: func() []byte { return http2Frame(nethttp2.FrameHeaders, 0, 1, getHead) },
		strike: constantFrame(nethttp2.FrameContinuation, 0, 1, "")},
	{name: "header bomb, 10,000 × 4 KB", faultKind: "header-block", strike: strikesAt(func(id uint32) []byte { return bomb(id, 10_000) }), burst: 1},
	{name: "header bombs, 14 × 4 KB", strike: strikesAt(func(id uint32) []byte { return bomb(id, 14) }), burst: 2},
	{name: "empty DATA", faultKind: "empty-frames", begin: upload, strike: constantFrame(nethttp2.FrameData, 0, 1, "")},
	{name: "DATA of padding", faultKind: "empty-frames", begin: upload, strike: constantFrame(nethttp2.FrameData, nethttp2.FlagDataPadded, 1, "\x03xxx")},
	{name: "SETTINGS", faultKind: "empty-frames", strike: constantFrame(nethttp2.FrameSettings, 0, 0, "")},
	{name: "SETTINGS, 250 windows", faultKind: "empty-frames", begin: streams(func(id uint32) []byte { return opened(id, postHead, false) }),
		strike: func(n uint32) []byte {
			return http2Frame(nethttp2.FrameSettings, 0, 0, "\x00\x04"+number(n%2))
		}},
	{name: "PING", faultKind: "empty-frames", strike: constantFrame(nethttp2.FramePing, 0, 0, "12345678")},
	{name: "PING, unread", faultKind: "empty-frames", deaf: true, strike: constantFrame(nethttp2.FramePing, 0, 0, "12345678")},
	{name: "PRIORITY", faultKind: "empty-frames", strike: constantFrame(nethttp2.FramePriority, 0, 1, number(3)+"\x10")},
	{name: "unknown frames", faultKind: "empty-frames", strike: constantFrame(0xbe, 0, 0, "x")},
	{name: "WINDOW_UPDATE of 1", faultKind: "empty-frames", strike: constantFrame(nethttp2.FrameWindowUpdate, 0, 0, number(1))},
	{name: "GOAWAY", faultKind: "empty-frames", strike: constantFrame(nethttp2.FrameGoAway, 0, 0, number(0)+number(0))},
	{name: "SETTINGS, window overflow", faultKind: "flow-control", strike: strikesAt(func(id uint32) []byte {
		return join(opened(id, postHead, false), http2Frame(nethttp2.FrameWindowUpdate, 0, id, number(1<<31-1-65535)),
			http2Frame(nethttp2.FrameSettings, 0, 0, "\x00\x04"+number(65536)))
	}), burst: 1},
	{name: "zero windows, 250 × 1 MB", begin: windows(0)},
	{name: "zero windows, 250 × 1 MB, h2c", container: "h2c", begin: windows(0)},
	{name: "windows of 5,000, 250 × 1 MB", begin: windows(5000)},
	{name: "windows of 5,000, 250 × 1 MB, h2c", container: "h2c", costly: true, begin: windows(5000)},
	{name: "250 streams never used", begin: streams(func(id uint32) []byte { return opened(id, postHead, false) })},
	{name: "250 hanging streams", begin: streams(func(id uint32) []byte { return encodeRequest(id, script.Hang, 0) })},
	{name: "250 hanging streams, h2c", container: "h2c", begin: streams(func(id uint32) []byte { return encodeRequest(id, script.Hang, 0) })},
}

func TestAnInnocentClientIsServedDuringFloodsOverHTTP2(t *testing.T) {
	for _, f := range floods {
		for _, n := range []int{4, 24} {
			if n > 4 && scale < 0.5 && !f.costly {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d connections", f.name, n), func(t *testing.T) { f.run(t, n) })
		}
	}
}

func (f *flood) run(t *testing.T, connections int) {
	container := f.container
	if container == "" {
		container = "http1"
	}
	k := startContainer(t, container, newLedger(t).write)
	g := startGate(t, k.port, "UPSTREAM_PROTOCOL="+container, "CONTAINER_CONCURRENCY=0", "QUEUE_CAPACITY=100000", "REVISION_TIMEOUT_SECONDS=300")
	row := floodRow{name: f.name, connections: connections, numByEnding: map[string]int{}}
	before, during := newInnocent(g.addr, true), newInnocent(g.addr, true)
	direct := newInnocent(launch.Address(k.port), container == "h2c")
	before.run(scaledTime(1500*time.Millisecond, 100*time.Millisecond))
	rest, peak := g.rss(), 0.0

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	attack := startAttackers(t, f, connections, g.addr)
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil {
			peak = max(peak, g.rss())
			pause(ctx, 10*time.Millisecond)
		}
	})
	watch.Go(func() {
		for ctx.Err() == nil {
			direct.run(100 * time.Millisecond)
		}
	})
	// The flood lasts at least d. On a busy machine it may need longer to reach a limit
	// of the gate, so the loop below waits until begun returns true.
	d := time.Duration(longer * float64(scaledTime(1500*time.Millisecond, 100*time.Millisecond)))
	begun := func() bool {
		switch {
		case f.faultKind != "":
			return attack.haveLost()
		case f.costly:
			figures, _ := g.figures()
			return figures["queuegate_in_flight_requests"] >= float64(250*connections)
		}
		return true
	}
	for began := time.Now(); time.Since(began) < d || !begun() && time.Since(began) < testTimeout; {
		during.run(100 * time.Millisecond)
	}
	figures, err := g.figures()
	cancel()
	attack.stop(t, &row)
	watch.Wait()

	row.growth = max(0, peak-rest)
	row.beforeAttack, row.during, row.direct = quantilesOf(before.took), quantilesOf(during.took), quantilesOf(direct.took)
	row.numRequests, row.failed = len(before.took)+len(during.took), before.failed+during.failed
	row.alive = g.Running()
	enterFlood(row)
	if !row.alive {
		t.Fatalf("the gate died: %v\n%s", g.Cmd.ProcessState, g.Stderr.String())
	}
	for _, reason := range append(before.reasons, during.reasons...) {
		t.Errorf("the innocent client: %s", reason)
	}
	most := float64(maxGrowth)
	if scale < 1 { // a short run shares the machine with other tests
		most *= 1.25
	}
	if row.growth > most && !launch.RaceBuild {
		t.Errorf("RSS grew by %.1f MiB, want at most %.0f", row.growth, most)
	}
	if fault := g.Fault(); fault != "" {
		t.Errorf("the gate reported: %s", fault)
	}
	if f.faultKind != "" {
		// Some attacks send frames that need a reply. The limit on unread replies may
		// then end the connection before the limit under test does, and the gate counts
		// the fault "unread" instead.
		if err != nil || figures[`queuegate_http2_faults_total{kind="`+f.faultKind+`"}`]+figures[`queuegate_http2_faults_total{kind="unread"}`] == 0 {
			t.Errorf("no fault %q is counted, %v", f.faultKind, err)
		}
		if len(row.numByEnding) == 0 {
			t.Error("the gate ended no connection of the attackers")
		}
	}
	// The attackers and the container use processors that the innocent client needs. This
	// also slows a client that bypasses the gate. So the limit is twice the larger of two
	// values: the p99 of that client, and the p99 before the attack.
	// If both are below 5 ms, the limit is 10 ms, because timers are not exact enough for
	// a lower limit. Only full runs are compared.
	if floor := 5 * time.Millisecond; scale == 1 && row.during.p99 > 2*max(row.beforeAttack.p99, row.direct.p99, floor) {
		t.Errorf("the innocent client's p99 was %v before, %v during; %v without the gate", row.beforeAttack.p99, row.during.p99, row.direct.p99)
	}
}
