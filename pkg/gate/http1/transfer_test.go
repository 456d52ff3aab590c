package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// transfer is a routine that moves one body through a reader and a writer. The reader
// reads from the socket src, and the writer writes to the socket dst.
type transfer struct {
	r       reader
	w       writer
	bufs    buffers
	src     loop.Sock
	dst     loop.Sock
	in, out *os.File // the test writes to the first file and reads from the second
	handle  loop.Handle
	next    func() (struct{}, bool)
	yield   func(struct{}) bool
	paused  bool
	script  func(*transfer)
	failure any
	ended   chan struct{}
}

// runScript runs the script as a coroutine that blocks only in pause.
func (x *transfer) runScript(yield func(struct{}) bool) {
	defer func() {
		x.failure = recover()
		x.end()
		x.handle.End()
	}()
	x.yield = yield
	x.script(x)
}

func (x *transfer) pause() {
	x.paused = true
	x.yield(struct{}{})
}

// Step implements loop.Routine.
func (x *transfer) Step() {
	if x.paused {
		x.paused = false
		x.next()
	}
}

func (x *transfer) end() {
	x.src.Close()
	x.dst.Close()
	close(x.ended)
}

// begin prepares the reader and the writer for a body. The writer sends the given head
// before the body.
func (x *transfer) begin(c moving, head string) {
	x.r.begin(c.kind, c.length, []byte(c.read), 0, len(c.read))
	x.r.exact = c.exact
	x.w.begin(c.chunked, c.trailers)
	if head != "" {
		x.w.setBuffered(append(x.w.buffered(), head...))
	}
}

func (x *transfer) done() bool {
	_, empty := x.w.Flush()
	return x.r.ended && empty
}

// run calls Pump until the whole body has been moved, or until the reader or the writer
// has failed.
func (x *transfer) run() {
	for !x.done() && x.r.err == nil && x.w.err == nil {
		if !x.r.Pump(&x.w) && !x.done() {
			x.pause()
		}
	}
	// If the reader has failed, send the bytes that were decoded before the error.
	for x.w.err == nil && x.w.outStart < len(x.w.out) {
		if moved, _ := x.w.Flush(); !moved {
			x.pause()
		}
	}
}

func (x *transfer) release() {
	x.r.release()
	x.w.drop()
}

func (x *transfer) trimPipes() {
	for p := x.bufs.pipes.free.Get(); p != nil; p = x.bufs.pipes.free.Get() {
		x.bufs.pipes.close(p)
	}
}

// startTransfer runs script on a loop and returns the transfer x. The test writes the
// body to x.in and reads the output from x.out.
func startTransfer(t *testing.T, script func(x *transfer)) *transfer {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	x := &transfer{script: script, ended: make(chan struct{})}
	g := &exchange.Gate{Config: exchange.Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	x.bufs.init(g, l)
	x.r.sock, x.r.bufs, x.w.sock, x.w.bufs = &x.src, &x.bufs, &x.dst, &x.bufs
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	near, far := [2]int{}, [2]*os.File{}
	for i := range near {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		near[i], far[i] = fds[0], os.NewFile(uintptr(fds[1]), fmt.Sprint("far end ", i))
		if err := far[i].SetDeadline(time.Now().Add(testkit.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	x.in, x.out = far[0], far[1]
	l.Post(func() {
		x.handle.Bind(l, x)
		if err := errors.Join(l.Register(&x.src, near[0], &x.handle), l.Register(&x.dst, near[1], &x.handle)); err != nil {
			x.failure = err
			x.end()
			return
		}
		x.handle.Begin()
		x.next, _ = iter.Pull(x.runScript)
		x.next()
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

func (x *transfer) wait(t *testing.T) {
	t.Helper()
	select {
	case <-x.ended:
	case <-time.After(testkit.Timeout):
		t.Fatal("the transfer does not end")
	}
	if x.failure != nil {
		t.Fatal(x.failure)
	}
}

type moving struct {
	kind     wire.BodyKind
	length   int64
	chunked  bool
	trailers bool
	exact    bool
	read     string // bytes read with the head
	write    int    // bytes per write; 0 = all at once
}

// moved sends its last argument through a transfer. The result out is the output without
// the head, and the result rest is the input that follows the body.
func moved(t *testing.T, c moving, in string) (x *transfer, out, rest string) {
	t.Helper()
	const head = "HEAD\r\n\r\n"
	x = startTransfer(t, func(x *transfer) {
		x.begin(c, head)
		x.run()
		rest = string(x.r.leftover())
		x.release()
	})
	go func() {
		defer x.in.Close()
		for in := in; in != ""; {
			n := len(in)
			if c.write > 0 {
				n = min(n, c.write)
			}
			if _, err := io.WriteString(x.in, in[:n]); err != nil {
				return // the transfer may end before it has read the whole input
			}
			in = in[n:]
		}
	}()
	b, err := io.ReadAll(x.out)
	if err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if n := x.bufs.bulks.free.Len(); n > 1 || x.r.bulk != nil || x.w.frame != nil {
		t.Errorf("%d large buffers in the pool, not released: %v, %v", n, x.r.bulk != nil, x.w.frame != nil)
	}
	out, found := strings.CutPrefix(string(b), head)
	if !found {
		t.Errorf("the head is missing: %.40q", b)
	}
	wantSame(t, "sent", x.w.sent, int64(len(b)))
	return x, out, rest
}

func TestBodiesAreForwardedUnchanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 100, directBytes, coalesceBytes - 8, coalesceBytes, bulkBytes, bulkBytes + 1, 300 << 10} {
		payload := noise(size)
		chunks := ""
		for p := payload; p != ""; {
			n := min(len(p), 1+rng.IntN(20<<10))
			chunks += fmt.Sprintf("%x;e\r\n%s\r\n", n, p[:n])
			p = p[n:]
		}
		chunks += "0\r\nX-Sum: 1\r\nHost: x\r\n\r\n"
		for _, c := range []moving{
			{kind: wire.BodyLength, length: int64(size)},
			{kind: wire.BodyLength, length: int64(size), exact: true, write: 1000},
			{kind: wire.BodyUntilClose},
			{kind: wire.BodyUntilClose, chunked: true, write: 5000},
			{kind: wire.BodyChunked},
			{kind: wire.BodyChunked, chunked: true, trailers: true, write: 777},
			{kind: wire.BodyChunked, chunked: true},
		} {
			in := payload
			if c.kind == wire.BodyChunked {
				in = chunks
			}
			for _, early := range []int{0, min(10, len(in)), min(len(in), coalesceBytes+10)} {
				c.read = in[:early]
				x, out, _ := moved(t, c, in[early:])
				if !x.r.ended || x.r.err != nil || x.w.err != nil {
					t.Fatalf("%d bytes, %d buffered: ended %v, %v, %v", size, early, x.r.ended, x.r.err, x.w.err)
				}
				trailers := ""
				if c.chunked {
					out, trailers = unchunk(t, out)
				}
				wantSame(t, "payload counted", x.r.consumed, int64(size))
				if out != payload {
					t.Fatalf("%d bytes, %d buffered: the payload changed", size, early)
				}
				if want := map[bool]string{true: "X-Sum: 1\r\n"}[c.trailers]; trailers != want {
					t.Errorf("trailers: got %q, want %q", trailers, want)
				}
			}
		}
	}
}

func TestATransferReturnsTheBytesReadBeyondTheBody(t *testing.T) {
	for _, c := range []struct {
		moving
		in string
	}{
		{moving{kind: wire.BodyLength, length: 5, read: "helloNEXT"}, ""},
		{moving{kind: wire.BodyLength, length: 5, read: "he"}, "lloNEXT"},
		{moving{kind: wire.BodyChunked, read: "5\r\nhello\r\n0\r\n\r\nNEXT"}, ""},
		{moving{kind: wire.BodyChunked, read: "5\r\nhe"}, "llo\r\n0\r\n\r\nNEXT"},
		{moving{kind: wire.NoBody, read: "NEXT"}, ""},
	} {
		_, out, rest := moved(t, c.moving, c.in)
		if want := map[bool]string{false: "hello"}[c.kind == wire.NoBody]; out != want || rest != "NEXT" {
			t.Errorf("%q then %q: out %q, rest %q", c.read, c.in, out, rest)
		}
	}
}

func TestAnExactReaderLeavesTheNextMessageInTheSocket(t *testing.T) {
	left := make([]byte, 16)
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyLength, length: 5, exact: true}, "")
		x.run()
		rest := x.r.leftover()
		x.release()
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

func TestNoEndIsSentForATruncatedBody(t *testing.T) {
	for _, c := range []struct {
		name string
		moving
		in, out string
		err     error
	}{
		{"a length that is not reached", moving{kind: wire.BodyLength, length: 9}, "hello", "hello", io.ErrUnexpectedEOF},
		{"a chunk that is not complete", moving{kind: wire.BodyChunked, chunked: true}, "9\r\nhello", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"no last chunk", moving{kind: wire.BodyChunked, chunked: true}, "5\r\nhello\r\n", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"no end of trailers", moving{kind: wire.BodyChunked, chunked: true, trailers: true}, "5\r\nhello\r\n0\r\nA: b\r\n", "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"an invalid size", moving{kind: wire.BodyChunked, chunked: true}, "5\r\nhello\r\nx", "5\r\nhello\r\n", wire.ErrBadBody},
		{"an invalid size in the bytes read with the head", moving{kind: wire.BodyChunked, chunked: true, read: "5\r\nhello\r\nx"}, "", "5\r\nhello\r\n", wire.ErrBadBody},
		{"an invalid trailer", moving{kind: wire.BodyChunked, chunked: true, trailers: true}, "0\r\nA b\r\n\r\n", "", wire.ErrBadBody},
		{"an invalid chunk forwarded without chunks", moving{kind: wire.BodyChunked}, "5\r\nhello\rx", "hello", wire.ErrBadBody},
		{"a long body with a length", moving{kind: wire.BodyLength, length: 1 << 20}, noise(700_000), noise(700_000), io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, out, _ := moved(t, c.moving, c.in)
			if out != c.out || !errors.Is(x.r.err, c.err) || x.r.ended {
				t.Errorf("%d bytes out, %v, ended %v; want %d, %v", len(out), x.r.err, x.r.ended, len(c.out), c.err)
			}
			x.trimPipes()
		})
	}
}

func TestAHeadAndASmallBodyAreSentInOneWrite(t *testing.T) {
	for _, c := range []struct {
		moving
		want string
	}{
		{moving{kind: wire.BodyLength, length: 5, read: "helloNEXT"}, "hello"},
		{moving{kind: wire.BodyChunked, chunked: true, trailers: true, read: "5\r\nhello\r\n0\r\nA: b\r\n\r\nNEXT"}, "5\r\nhello\r\n0\r\nA: b\r\n\r\n"},
		{moving{kind: wire.BodyUntilClose, chunked: true, read: "hello"}, "5\r\nhello\r\n"},
		{moving{kind: wire.BodyLength, length: 9, read: "hello"}, "hello"},
		{moving{kind: wire.NoBody, read: "NEXT"}, ""},
	} {
		x := startTransfer(t, func(x *transfer) {
			x.begin(c.moving, "HEAD")
			x.r.writeDecoded(&x.w)
			wantSame(t, c.read, string(x.w.out[x.w.outStart:]), "HEAD"+c.want)
			x.release()
		})
		x.wait(t)
	}
}

func TestAReceiverThatDoesNotReadPausesTheSender(t *testing.T) {
	stalled := make(chan int64)
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyUntilClose}, "")
		for x.dst.Writable() { // until the receiver's buffer is full
			if !x.r.Pump(&x.w) && x.dst.Writable() {
				x.pause()
			}
		}
		before := x.r.consumed
		for range 100 {
			if x.r.Pump(&x.w) {
				panic("moved bytes to a full socket")
			}
		}
		if held := len(x.r.decoded) + x.r.w - x.r.r + len(x.w.out) - x.w.outStart; before != x.r.consumed || held <= 0 || held > bulkBytes+coalesceBytes {
			panic(fmt.Sprintf("%d bytes buffered, %d more read", held, x.r.consumed-before))
		}
		stalled <- x.r.consumed
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
			t.Errorf("read %d bytes ahead of the receiver", n)
		}
	case <-x.ended:
	}
	n, err := io.Copy(io.Discard, x.out)
	if err = errors.Join(err, <-sent); n != total || err != nil {
		t.Errorf("%d of %d bytes, %v", n, total, err)
	}
}

func TestAnIdleStreamHoldsNoBuffer(t *testing.T) {
	idle := make(chan bool)
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyUntilClose}, "")
		for x.r.consumed < 5 || x.src.Readable() {
			if !x.r.Pump(&x.w) {
				x.pause()
			}
		}
		x.r.Pump(&x.w)
		idle <- x.r.bulk == nil && x.r.buf == nil && x.w.frame == nil
		x.run()
	})
	if _, err := io.WriteString(x.in, "hello"); err != nil {
		t.Fatal(err)
	}
	select {
	case none := <-idle:
		if !none {
			t.Error("an idle stream holds a buffer")
		}
	case <-x.ended:
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

func TestAReceiverThatDisconnectsEndsTheTransfer(t *testing.T) {
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyUntilClose}, "")
		x.run()
	})
	if err := x.out.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(x.in, "hello"); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if x.w.err == nil || x.r.err != nil || x.done() {
		t.Errorf("%v, %v", x.w.err, x.r.err)
	}
}

func TestABodyCanBeRewoundWhileItIsBuffered(t *testing.T) {
	for _, c := range []struct {
		name        string
		moving      moving
		in          string
		whole, want bool
	}{
		{"all buffered", moving{kind: wire.BodyLength, length: 5, read: "hello"}, "", true, true},
		{"buffered chunks", moving{kind: wire.BodyChunked, chunked: true, read: "5\r\nhello\r\n0\r\n\r\n"}, "", true, true},
		{"none", moving{kind: wire.NoBody}, "", true, true},
		{"more from the socket", moving{kind: wire.BodyLength, length: 9, read: "hello"}, "more", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := startTransfer(t, func(x *transfer) {
				x.begin(c.moving, "")
				x.run()
				consumed := x.r.consumed
				if got := x.r.rewind(c.whole, c.moving.kind, c.moving.length); got != c.want {
					t.Errorf("rewinds: %v, want %v", got, c.want)
				}
				if c.want {
					x.w.begin(c.moving.chunked, false)
					x.run()
					wantSame(t, "payload the second time", x.r.consumed, consumed)
				}
				x.release()
			})
			_, _ = io.WriteString(x.in, c.in)
			x.wait(t)
		})
	}
}

func noise(n int) string {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func TestLongBodiesAreSplicedAndForwardedUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		size  int
		c     moving
		pipes int
	}{
		{"long", 5 << 20, moving{kind: wire.BodyLength, exact: true}, 1},
		{"long, in small writes", 1 << 20, moving{kind: wire.BodyLength, write: 3000}, 1},
		{"long, the beginning read with the head", 1 << 20, moving{kind: wire.BodyLength, read: noise(70_000)}, 1},
		{"the minimum for splice", minSplice, moving{kind: wire.BodyLength}, 1},
		{"shorter", minSplice - 1, moving{kind: wire.BodyLength}, 0},
		{"without a length", 1 << 20, moving{kind: wire.BodyUntilClose}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := noise(c.size)
			c.c.length = int64(len(c.c.read) + len(in))
			x, out, rest := moved(t, c.c, in)
			if out != c.c.read+in || rest != "" {
				t.Errorf("%d bytes arrived of %d, %d are left over", len(out), c.c.length, len(rest))
			}
			wantSame(t, "payload", x.r.consumed, c.c.length)
			if n := x.bufs.pipes.free.Len(); n != c.pipes || x.r.pipe != nil {
				t.Errorf("%d pipes in the pool, not released: %v; want %d", n, x.r.pipe != nil, c.pipes)
			}
			x.trimPipes()
		})
	}
}

func TestALongBodyEndsAtItsContentLength(t *testing.T) {
	body, next := noise(1<<20), "GET / HTTP/1.1\r\n\r\n"
	var after string
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyLength, length: int64(len(body)), exact: true}, "")
		x.run()
		x.release()
		x.trimPipes()
		x.dst.CloseWrite()
		for len(after) < len(next) {
			var b [64]byte
			n, err := x.src.Read(b[:])
			if after += string(b[:n]); err == loop.ErrAgain {
				x.pause()
			} else if err != nil {
				return
			}
		}
	})
	go func() { _, _ = io.WriteString(x.in, body+next) }()
	out, err := io.ReadAll(x.out)
	x.wait(t)
	if err != nil || string(out) != body || after != next {
		t.Errorf("%d bytes of %d arrived, %v; after the body %q", len(out), len(body), err, after)
	}
}

func TestAtMostOneMiBIsBufferedIfTheReceiverDoesNotReadTheBody(t *testing.T) {
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyLength, length: 1 << 30}, "")
		x.run()
		x.release()
		if n := x.bufs.pipes.free.Len(); n != 0 {
			t.Errorf("%d pipes with bytes in them are in the pool", n)
		}
	})
	go func() { _, _ = io.WriteString(x.in, strings.Repeat("x", 64<<20)) }()
	if _, err := io.ReadFull(x.out, make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	_ = x.out.Close()
	x.wait(t)
	if x.w.err == nil {
		t.Error("the disconnect of the receiver was not detected")
	}
	if held := x.r.consumed - x.w.sent; held < 0 || held > 1<<20 {
		t.Errorf("%d bytes were buffered", held)
	}
}

// unchunk reads a chunked body with net/http and returns the payload, and the trailers as
// lines.
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
		t.Fatalf("chunks: %v, %d bytes after the end", err, buffered.Buffered()+in.Len())
	}
	for name, values := range res.Trailer {
		trailers += name + ": " + values[0] + "\r\n"
	}
	return string(body), trailers
}
