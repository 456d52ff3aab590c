package conformance

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// mostGrowth is the maximum growth of the gate's memory. It is far above the growth of a
// busy gate, and far below the bytes of an attack.
const mostGrowth = 64 << 20

// attacker is an HTTP/2 connection on which the test writes single frames.
type attacker struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	head       bytes.Buffer
	encode     *hpack.Encoder
	terminated chan struct{} // closed when the gate has sent GOAWAY or closed the connection
	code       http2.ErrCode // code of the gate's GOAWAY, if any
}

// attack opens a connection. A deaf attacker never reads.
func attack(t *testing.T, g *gate, deaf bool) *attacker {
	t.Helper()
	conn, err := net.Dial("tcp", g.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a := &attacker{t: t, conn: conn, Framer: http2.NewFramer(conn, conn), terminated: make(chan struct{})}
	a.encode = hpack.NewEncoder(&a.head)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if !deaf {
		go a.read()
	}
	return a
}

func (a *attacker) read() {
	defer close(a.terminated)
	for {
		frame, err := a.ReadFrame()
		if err != nil {
			return
		}
		if f, ok := frame.(*http2.GoAwayFrame); ok {
			a.code = f.ErrCode
			return
		}
	}
}

// open sends the head of a request that stays open.
func (a *attacker) open(id uint32) error {
	a.head.Reset()
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.testing.TestService/UnaryCall"}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = a.encode.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // writes to a buffer, so there is no error
	}
	return a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a.head.Bytes(), EndHeaders: true})
}

// An attack ends when the gate has closed the connection, or when all frames are sent.
var attacks = []struct {
	name      string
	deaf      bool
	mustClose bool // the gate must close the connection; otherwise it must tolerate the attack
	run       func(a *attacker) error
}{
	{"rapid reset of 100,000 streams", false, true, func(a *attacker) error {
		for i := range uint32(100_000) {
			if err := a.open(2*i + 1); err != nil {
				return err
			}
			if err := a.WriteRSTStream(2*i+1, http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		return nil
	}},
	{"header flood", false, true, func(a *attacker) error {
		// The block has 60 literal fields without indexing (RFC 7541 section 6.2.2). Each
		// value has 253 bytes. The whole block has 15,480 bytes, so it fits into one frame
		// of 16,384 bytes.
		block := bytes.Repeat([]byte("\x00\x01x\x7f\x7e"+strings.Repeat("y", 253)), 60)
		if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block}); err != nil {
			return err
		}
		for range 20_000 { // 300 MB
			if err := a.WriteContinuation(1, false, block); err != nil {
				return err
			}
		}
		return nil
	}},
	{"flood of empty CONTINUATION frames", false, true, func(a *attacker) error {
		if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1}); err != nil {
			return err
		}
		for range 1_000_000 {
			if err := a.WriteContinuation(1, false, nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"SETTINGS flood without reading the acknowledgements", true, true, func(a *attacker) error {
		for range 500_000 {
			if err := a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"PING flood without reading the acknowledgements", true, true, func(a *attacker) error {
		for range 500_000 {
			if err := a.WritePing(false, [8]byte{}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"flood of empty DATA frames", false, true, func(a *attacker) error {
		if err := a.open(1); err != nil {
			return err
		}
		for range 500_000 {
			if err := a.WriteData(1, false, nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"window updates of zero", false, true, func(a *attacker) error {
		return a.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte{0, 0, 0, 0})
	}},
	{"more streams than allowed", false, false, func(a *attacker) error {
		for i := range uint32(2000) {
			if err := a.open(2*i + 1); err != nil {
				return err
			}
		}
		return nil
	}},
}

// enoughCalls is the minimum number of innocent calls during and after an attack.
const enoughCalls = 1000

func TestAnAbusiveConnectionIsBoundedAndOtherConnectionsAreServed(t *testing.T) {
	for _, c := range attacks {
		t.Run(c.name, func(t *testing.T) {
			g := startGate(t, serveService(t, &service{}).port)
			client := stub(t, g)
			var quiet []time.Duration
			for range 500 {
				at := time.Now()
				if _, err := client.UnaryCall(testContext(t), &testpb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
				quiet = append(quiet, time.Since(at))
			}
			slices.Sort(quiet)
			before := residentBytes(t, g)

			result := make(chan error, 1)
			a := attack(t, g, c.deaf)
			go func() { result <- c.run(a) }()
			most, waits := before, []time.Duration{}
			var err error
			meanwhile := 0
			for under := true; under || len(waits) < enoughCalls; {
				select {
				case err = <-result:
					under, result = false, nil
				case <-a.terminated:
					under = false
				default:
				}
				if under {
					meanwhile++
				}
				at := time.Now()
				if _, err := client.UnaryCall(testContext(t), &testpb.SimpleRequest{}); err != nil {
					t.Fatalf("the innocent client: %v", err)
				}
				waits = append(waits, time.Since(at))
				most = max(most, residentBytes(t, g))
			}
			isClosed := err != nil
			if c.mustClose && !c.deaf {
				receiveIn(t, "the end of the connection", a.terminated)
				isClosed = true
			}
			if isClosed != c.mustClose {
				t.Errorf("the gate ended the connection: %v (%v)", isClosed, err)
			}
			slices.Sort(waits)
			t.Logf("%v; %d innocent calls, %d of them during the attack: p50 %v, p99 %v, longest %v (p50 %v, p99 %v before); grew by %d KiB",
				a.code, len(waits), meanwhile, waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1],
				quiet[len(quiet)/2], quiet[len(quiet)*99/100], (most-before)>>10)
			if most-before > mostGrowth {
				t.Errorf("resident memory grew from %d to %d bytes", before, most)
			}
		})
	}
}

func residentBytes(t *testing.T, g *gate) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("no VmRSS in %q", text)
	}
	return kib << 10
}
