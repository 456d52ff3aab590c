package http1

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// window is an exchange.Sink with limited capacity.
type window struct {
	capacity int
	got      strings.Builder
	finished bool
}

func (w *window) Write(p []byte) int {
	n := min(len(p), w.capacity)
	w.capacity -= n
	w.got.Write(p[:n])
	return n
}

func (w *window) Capacity() int              { return w.capacity }
func (w *window) Finish([]byte)              { w.finished = true }
func (w *window) Flush() (moved, empty bool) { return false, true }
func (w *window) Broken() bool               { return false }

// bufferSize returns the size of u's response buffers.
func (u *upConn) bufferSize() (n int) {
	if u.in != nil {
		n += len(u.in.b)
	}
	if u.reader.bulk != nil {
		n += len(u.reader.bulk.b)
	}
	return n
}

// Each request in progress has an upConn. An upConn that does not fit into the allocation
// size class of 416 bytes would occupy 448 bytes.
func TestAConnectionToTheContainerFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(upConn{}) - unsafe.Sizeof(wire.BodyCheck{}); n > 416 {
		t.Errorf("%d bytes: the next size class is 448", n)
	}
}

// Thousands of streams may be blocked by closed windows at once.
func TestABlockedResponseHoldsNoBuffer(t *testing.T) {
	body := strings.Repeat("0123456789", 16_000)
	for _, c := range []struct{ name, head, body string }{
		{"with a length", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)), body},
		{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("3e8\r\n"+body[:1000]+"\r\n", len(body)/1000) + "0\r\n\r\n"},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n", body},
		{"with bare line feeds", fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\n", len(body)), body},
	} {
		for _, capacity := range []int{0, 1, 100, 5000} {
			t.Run(fmt.Sprintf("%s, capacity %d", c.name, capacity), func(t *testing.T) {
				client, most := &window{capacity: capacity}, 0
				x := startTransfer(t, func(x *transfer) {
					u := &upConn{pool: &Pool{bufs: &x.bufs, worker: &server.Worker{Choice: &upstream.Choice{}}}, sock: &x.src, req: &wire.Request{Method: []byte("GET")}, client: client}
					u.reader.sock, u.reader.bufs = &x.src, &x.bufs
					for state := exchange.HeadAwaited; state != exchange.HeadFinal; {
						switch state, _ = u.Receive(); state {
						case exchange.HeadAwaited:
							x.pause()
						case exchange.HeadFailed:
							panic("the head is not accepted")
						}
					}
					for !client.finished && u.reader.err == nil {
						switch {
						case u.Pump(client):
						case client.capacity > 0:
							x.pause()
						default:
							most = max(most, u.bufferSize())
							client.capacity = max(1000, capacity)
						}
					}
					u.reader.release()
				})
				go func() {
					_, _ = io.WriteString(x.in, c.head+c.body)
					_ = x.in.Close()
				}()
				x.wait(t)
				if got := client.got.String(); got != body || !client.finished {
					t.Errorf("%d bytes arrived, %.40q, end %v", len(got), got, client.finished)
				}
				if most > minRead {
					t.Errorf("%d bytes of buffers while the client reads nothing, want at most %d", most, minRead)
				}
			})
		}
	}
}

// A buffer held until the final response could be idle for long.
func TestAnInterimResponseReleasesItsBuffer(t *testing.T) {
	size := -1
	x := startTransfer(t, func(x *transfer) {
		u := &upConn{pool: &Pool{bufs: &x.bufs, worker: &server.Worker{Choice: &upstream.Choice{}}}, sock: &x.src, req: &wire.Request{Method: []byte("GET")}, client: &window{capacity: 1 << 20}}
		u.reader.sock, u.reader.bufs = &x.src, &x.bufs
		state, _ := u.Receive()
		for ; state == exchange.HeadAwaited; state, _ = u.Receive() {
			x.pause()
		}
		if state != exchange.HeadInterim || u.Status() != 103 {
			panic("no interim response")
		}
		_, _ = u.Receive()
		size = u.bufferSize()
	})
	if _, err := io.WriteString(x.in, "HTTP/1.1 103 Early Hints\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if size != 0 {
		t.Errorf("%d bytes of buffers after an interim response", size)
	}
}

// After the last byte of the body, the client's capacity is 0. The end of the body needs
// no capacity, so it must be forwarded nevertheless.
func TestTheEndOfABodyIsForwardedWhenTheClientAcceptsNoMoreBytes(t *testing.T) {
	const body = "hello, world"
	client := &window{capacity: len(body)}
	x := startTransfer(t, func(x *transfer) {
		x.begin(moving{kind: wire.BodyChunked}, "")
		for !client.finished && x.r.err == nil {
			if !x.r.Pump(client) {
				x.pause()
			}
		}
		x.release()
	})
	if _, err := io.WriteString(x.in, "c\r\n"+body+"\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	if client.got.String() != body || !client.finished {
		t.Errorf("%q, end %v", client.got.String(), client.finished)
	}
}
