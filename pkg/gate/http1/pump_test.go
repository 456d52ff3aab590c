package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// pumpTrial is a conversation that does nothing but pump: from the test's in
// to the test's out.
type pumpTrial struct {
	p       pump
	bulks   bulkPool
	src     loop.Sock
	dst     loop.Sock
	in, out *os.File // the far ends
	task    *loop.Task
	script  func(*pumpTrial)
	failure any
	over    chan struct{}
}

func (x *pumpTrial) Run(t *loop.Task) {
	x.task = t
	x.src.Handle(t)
	x.dst.Handle(t)
	x.script(x)
	x.end()
}

func (x *pumpTrial) Recovered(_ *loop.Task, v any) {
	x.failure = v
	x.end()
}

func (x *pumpTrial) end() {
	x.src.Close()
	x.dst.Close()
	close(x.over)
}

// run steps until the pump is done or broken.
func (x *pumpTrial) run() {
	for !x.p.done && x.p.srcErr == nil && x.p.dstErr == nil {
		if !x.p.step(&x.bulks) {
			x.task.Wait(0)
		}
	}
	x.flush()
}

// flush sends what was decoded before an error.
func (x *pumpTrial) flush() {
	for x.p.dstErr == nil && x.p.o < len(x.p.out) {
		if moved, _ := x.p.flush(); !moved {
			x.task.Wait(0)
		}
	}
}

// startPump runs script on a loop. The caller has both far ends.
func startPump(t *testing.T, script func(x *pumpTrial)) *pumpTrial {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	x := &pumpTrial{script: script, over: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	near, far := [2]int{}, [2]*os.File{}
	for i := range near {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		near[i], far[i] = fds[0], os.NewFile(uintptr(fds[1]), fmt.Sprint("far end ", i))
		if err := far[i].SetDeadline(time.Now().Add(enginePatience)); err != nil {
			t.Fatal(err)
		}
	}
	x.in, x.out = far[0], far[1]
	l.Post(func() {
		if err := errors.Join(l.Register(&x.src, near[0], x), l.Register(&x.dst, near[1], x)); err != nil {
			x.failure = err
			x.end()
			return
		}
		l.Start(x)
	})
	t.Cleanup(func() {
		_, _ = x.in.Close(), x.out.Close()
		x.wait(t)
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return x
}

// Event is of the time before the conversation begins.
func (x *pumpTrial) Event(*loop.Sock) {}

// wait returns when the script has ended.
func (x *pumpTrial) wait(t *testing.T) {
	t.Helper()
	select {
	case <-x.over:
	case <-time.After(enginePatience):
		t.Fatal("the pump does not come to an end")
	}
	if x.failure != nil {
		t.Fatal(x.failure)
	}
}

// passage is what goes into a pump and how.
type pumping struct {
	kind     wire.BodyKind
	length   int64
	chunked  bool
	trailers bool
	limit    bool
	read     string // what has been read before
	write    int    // bytes per write; 0 = all at once
}

// pumped sends in through a pump and returns all that came out of it, and
// what was read beyond the body.
func pumped(t *testing.T, c pumping, in string) (x *pumpTrial, out, rest string) {
	t.Helper()
	const head = "HEAD\r\n\r\n"
	x = startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, []byte(head), []byte(c.read), 0, len(c.read))
		x.p.body.Begin(c.kind, c.length)
		x.p.chunked, x.p.trailers, x.p.limit = c.chunked, c.trailers, c.limit
		x.p.preload()
		x.run()
		rest = string(x.p.buf[x.p.r:x.p.w])
		x.p.release(&x.bulks)
	})
	go func() {
		defer x.in.Close()
		for in := in; in != ""; {
			n := len(in)
			if c.write > 0 {
				n = min(n, c.write)
			}
			if _, err := io.WriteString(x.in, in[:n]); err != nil {
				return // the pump has ended before its source
			}
			in = in[n:]
		}
	}()
	b, err := io.ReadAll(x.out)
	if err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if len(x.bulks.free) > 1 || x.p.bulk != nil {
		t.Errorf("%d large buffers in the pool, one held: %v", len(x.bulks.free), x.p.bulk != nil)
	}
	out, found := strings.CutPrefix(string(b), head)
	if !found {
		t.Errorf("the head is missing: %.40q", b)
	}
	wantSame(t, "written", x.p.written, int64(len(b)))
	return x, out, rest
}

func TestPumpedBodiesArriveWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 100, coalesceBytes - 8, coalesceBytes, bulkBytes, bulkBytes + 1, 300 << 10} {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		chunks := ""
		for p := string(payload); p != ""; {
			n := min(len(p), 1+rng.IntN(20<<10))
			chunks += fmt.Sprintf("%x;e\r\n%s\r\n", n, p[:n])
			p = p[n:]
		}
		chunks += "0\r\nX-Sum: 1\r\nHost: x\r\n\r\n"
		for _, c := range []pumping{
			{kind: wire.BodyLength, length: int64(size)},
			{kind: wire.BodyLength, length: int64(size), limit: true, write: 1000},
			{kind: wire.BodyUntilClose},
			{kind: wire.BodyUntilClose, chunked: true, write: 5000},
			{kind: wire.BodyChunked},
			{kind: wire.BodyChunked, chunked: true, trailers: true, write: 777},
			{kind: wire.BodyChunked, chunked: true},
		} {
			in := string(payload)
			if c.kind == wire.BodyChunked {
				in = chunks
			}
			for _, early := range []int{0, min(10, len(in)), min(len(in), coalesceBytes+10)} {
				c.read = in[:early]
				x, out, _ := pumped(t, c, in[early:])
				if !x.p.done || x.p.srcErr != nil || x.p.dstErr != nil {
					t.Fatalf("%d bytes, %d at hand: done %v, %v, %v", size, early, x.p.done, x.p.srcErr, x.p.dstErr)
				}
				trailers := ""
				if c.chunked {
					out, trailers = unchunk(t, out)
				}
				wantSame(t, "payload counted", x.p.payload, int64(size))
				if out != string(payload) {
					t.Fatalf("%d bytes, %d at hand: the payload changed", size, early)
				}
				if want := map[bool]string{true: "X-Sum: 1\r\n"}[c.trailers]; trailers != want {
					t.Errorf("trailers: got %q, want %q", trailers, want)
				}
			}
		}
	}
}

func TestWhatFollowsABodyIsHandedBack(t *testing.T) {
	for _, c := range []struct {
		pumping
		in string
	}{
		{pumping{kind: wire.BodyLength, length: 5, read: "helloNEXT"}, ""},
		{pumping{kind: wire.BodyLength, length: 5, read: "he"}, "lloNEXT"},
		{pumping{kind: wire.BodyChunked, read: "5\r\nhello\r\n0\r\n\r\nNEXT"}, ""},
		{pumping{kind: wire.BodyChunked, read: "5\r\nhe"}, "llo\r\n0\r\n\r\nNEXT"},
		{pumping{kind: wire.NoBody, read: "NEXT"}, ""},
	} {
		_, out, rest := pumped(t, c.pumping, c.in)
		if want := map[bool]string{false: "hello"}[c.kind == wire.NoBody]; out != want || rest != "NEXT" {
			t.Errorf("%q then %q: out %q, rest %q", c.read, c.in, out, rest)
		}
	}
}

func TestALimitedPumpLeavesTheNextMessageInTheSocket(t *testing.T) {
	left := make([]byte, 16)
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyLength, 5)
		x.p.limit = true
		x.run()
		rest := x.p.buf[x.p.r:x.p.w]
		x.p.release(&x.bulks)
		if len(rest) > 0 {
			panic(fmt.Sprintf("read %q too much", rest))
		}
		n, err := x.src.Read(left)
		if left = left[:max(n, 0)]; err != nil {
			panic(err)
		}
	})
	if _, err := io.WriteString(x.in, "helloNEXT"); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	wantSame(t, "in the socket", string(left), "NEXT")
}

func TestABodyThatBreaksOffHasNoEnd(t *testing.T) {
	for _, c := range []struct {
		sentence string
		pumping
		in, out string
		err     error
	}{
		{"a length that is not reached", pumping{kind: wire.BodyLength, length: 9}, "hello", "hello", io.ErrUnexpectedEOF},
		{"a chunk that is not complete", pumping{kind: wire.BodyChunked, chunked: true}, "9\r\nhello", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"no last chunk", pumping{kind: wire.BodyChunked, chunked: true}, "5\r\nhello\r\n", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"no end of trailers", pumping{kind: wire.BodyChunked, chunked: true, trailers: true}, "5\r\nhello\r\n0\r\nA: b\r\n", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"a bad size", pumping{kind: wire.BodyChunked, chunked: true}, "5\r\nhello\r\nx", "5\r\nhello\r\n", wire.ErrBadBody},
		{"a bad size within what was read before", pumping{kind: wire.BodyChunked, chunked: true, read: "5\r\nhello\r\nx"}, "", "5\r\nhello\r\n", wire.ErrBadBody},
		{"a bad trailer", pumping{kind: wire.BodyChunked, chunked: true, trailers: true}, "0\r\nA b\r\n\r\n", "", wire.ErrBadBody},
		{"a bad chunk that goes on without chunks", pumping{kind: wire.BodyChunked}, "5\r\nhello\rx", "hello", wire.ErrBadBody},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			x, out, _ := pumped(t, c.pumping, c.in)
			if out != c.out || !errors.Is(x.p.srcErr, c.err) || x.p.done {
				t.Errorf("out %q, %v, done %v; want %q, %v", out, x.p.srcErr, x.p.done, c.out, c.err)
			}
		})
	}
}

func TestHeadAndSmallBodyLeaveTogether(t *testing.T) {
	for _, c := range []struct {
		pumping
		want string
	}{
		{pumping{kind: wire.BodyLength, length: 5, read: "helloNEXT"}, "hello"},
		{pumping{kind: wire.BodyChunked, chunked: true, trailers: true, read: "5\r\nhello\r\n0\r\nA: b\r\n\r\nNEXT"}, "5\r\nhello\r\n0\r\nA: b\r\n\r\n"},
		{pumping{kind: wire.BodyUntilClose, chunked: true, read: "hello"}, "5\r\nhello\r\n"},
		{pumping{kind: wire.BodyLength, length: 9, read: "hello"}, "hello"},
		{pumping{kind: wire.NoBody, read: "NEXT"}, ""},
	} {
		var p pump
		p.begin(nil, nil, []byte("HEAD"), []byte(c.read), 0, len(c.read))
		p.body.Begin(c.kind, c.length)
		p.chunked, p.trailers = c.chunked, c.trailers
		p.preload()
		wantSame(t, c.read, string(p.out), "HEAD"+c.want)
	}
}

func TestALongBodyAtHandIsNotCopied(t *testing.T) {
	read := []byte(strings.Repeat("x", coalesceBytes+1))
	var p pump
	p.begin(nil, nil, []byte("HEAD"), read, 0, len(read))
	p.body.Begin(wire.BodyLength, int64(len(read)))
	p.preload()
	wantSame(t, "in the first write", string(p.out), "HEAD")
	p.out = nil
	p.decode()
	if len(p.out) != len(read) || &p.out[0] != &read[0] {
		t.Errorf("%d bytes, copied: %v", len(p.out), &p.out[0] != &read[0])
	}
}

func TestAReceiverThatDoesNotReadStopsTheReading(t *testing.T) {
	stalled := make(chan int64)
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyUntilClose, 0)
		for x.dst.Writable() { // until the receiver's buffer is full
			if !x.p.step(&x.bulks) && x.dst.Writable() {
				x.task.Wait(0)
			}
		}
		before := x.p.payload
		for range 100 {
			if x.p.step(&x.bulks) {
				panic("moved bytes that nobody took")
			}
		}
		if held := x.p.payload - x.p.written; before != x.p.payload || held <= 0 || held > bulkBytes {
			panic(fmt.Sprintf("holds %d bytes, read %d more", held, x.p.payload-before))
		}
		stalled <- x.p.payload
		x.run()
	})
	const total = 8 << 20
	sent := make(chan error, 1)
	go func() {
		_, err := x.in.Write(make([]byte, total))
		sent <- errors.Join(err, x.in.Close())
	}()
	select {
	case n := <-stalled:
		if n >= total {
			t.Errorf("read %d bytes that nobody took", n)
		}
	case <-x.over:
	}
	n, err := io.Copy(io.Discard, x.out)
	if err = errors.Join(err, <-sent); n != total || err != nil {
		t.Errorf("%d of %d bytes, %v", n, total, err)
	}
}

func TestAnIdleStreamHoldsNoLargeBuffer(t *testing.T) {
	idle := make(chan bool)
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyUntilClose, 0)
		for x.p.payload < 5 || x.src.Readable() {
			if !x.p.step(&x.bulks) {
				x.task.Wait(0)
			}
		}
		x.p.step(&x.bulks)
		idle <- x.p.bulk == nil && x.p.buf == nil
		x.run()
	})
	if _, err := io.WriteString(x.in, "hello"); err != nil {
		t.Fatal(err)
	}
	select {
	case none := <-idle:
		if !none {
			t.Error("holds a large buffer while nothing comes")
		}
	case <-x.over:
	}
	if _, err := io.WriteString(x.in, " world"); err != nil {
		t.Fatal(err)
	}
	_ = x.in.Close()
	b, err := io.ReadAll(x.out)
	if err != nil || string(b) != "hello world" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestAReceiverThatLeavesEndsThePump(t *testing.T) {
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyUntilClose, 0)
		x.run()
	})
	if err := x.out.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(x.in, "hello"); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if x.p.dstErr == nil || x.p.srcErr != nil || x.p.done {
		t.Errorf("%v, %v, done %v", x.p.dstErr, x.p.srcErr, x.p.done)
	}
}

func TestThePoolKeepsSixteenLargeBuffers(t *testing.T) {
	var pool bulkPool
	all := make([]*bulk, maxFreeBulks+5)
	for i := range all {
		all[i] = pool.get()
		wantSame(t, "size", len(all[i].b), bulkBytes)
	}
	for _, b := range all {
		pool.put(b)
	}
	wantSame(t, "kept", len(pool.free), maxFreeBulks)
	if b := pool.get(); b != all[maxFreeBulks-1] || len(pool.free) != maxFreeBulks-1 {
		t.Errorf("the pool does not give out what it got")
	}
}

// unchunk reads a chunked body as net/http does: payload, and trailers as lines.
func unchunk(t *testing.T, wire string) (payload, trailers string) {
	t.Helper()
	in := strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + wire)
	buffered := bufio.NewReader(in)
	res, err := http.ReadResponse(buffered, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || buffered.Buffered()+in.Len() > 0 {
		t.Fatalf("chunks: %v, %d bytes behind the end", err, buffered.Buffered()+in.Len())
	}
	for name, values := range res.Trailer {
		trailers += name + ": " + values[0] + "\r\n"
	}
	return string(body), trailers
}
