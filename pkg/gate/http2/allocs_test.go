package http2

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// frameReader reads frames of at most 4 KiB without allocating.
type frameReader struct {
	conn net.Conn
	b    [64 << 10]byte
	r, w int
}

// next returns the type, flags and stream of the next frame.
func (f *frameReader) next() (t h2.Type, flags h2.Flags, id uint32, ok bool) {
	for {
		if b := f.b[f.r:f.w]; len(b) >= h2.FrameHeaderLen {
			if n := h2.FrameHeaderLen + int(b[0])<<16 + int(b[1])<<8 + int(b[2]); len(b) >= n {
				f.r += n
				return h2.Type(b[3]), h2.Flags(b[4]), binary.BigEndian.Uint32(b[5:]), true
			}
		}
		f.w = copy(f.b[:], f.b[f.r:f.w])
		f.r = 0
		n, err := f.conn.Read(f.b[f.w:])
		if f.w += n; err != nil {
			return 0, 0, 0, false
		}
	}
}

// serveFixedH2C sends the same response to each request.
func serveFixedH2C(conn net.Conn) {
	f := &frameReader{conn: conn}
	if _, err := io.ReadFull(conn, f.b[:len(h2.Preface)]); err != nil {
		return
	}
	_, _ = conn.Write(concat(frame(h2.Settings, 0, 0, ""), frame(h2.Settings, h2.FlagAck, 0, ""), frame(h2.WindowUpdate, 0, 0, u32(1<<30))))
	response := concat(frame(h2.Headers, h2.FlagEndHeaders, 1, "\x88"), frame(h2.Data, h2.FlagEndStream, 1, "hello"))
	for {
		t, flags, id, ok := f.next()
		if !ok {
			return
		}
		if t != h2.Headers && t != h2.Data || flags&h2.FlagEndStream == 0 {
			continue
		}
		binary.BigEndian.PutUint32(response[5:], id)
		binary.BigEndian.PutUint32(response[h2.FrameHeaderLen+1+5:], id)
		if _, err := conn.Write(response); err != nil {
			return
		}
	}
}

// serveFixedHTTP1 sends the same response to each request over HTTP/1.1.
func serveFixedHTTP1(conn net.Conn) {
	b, n := make([]byte, 4096), 0
	response := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	for {
		k, err := conn.Read(b[n:])
		if err != nil {
			return
		}
		if n += k; bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
			n = 0
			if _, err := conn.Write(response); err != nil {
				return
			}
		}
	}
}

type noopObserver struct{}

func (noopObserver) Begin(*gate.Record)    {}
func (noopObserver) End(*gate.Record)      {}
func (noopObserver) Rejected(gate.Outcome) {}
func (noopObserver) Probed(*gate.Record)   {}

// The test counts the allocations of the process. Client and container run in it too, but
// do not allocate.
func TestMultiplexedRequestsDoNotAllocate(t *testing.T) {
	const (
		atOnce = 8
		rounds = 250
		most   = 0.01 // maximum allocations per request; the runtime itself allocates now and then
	)
	get := headersFrame(1, true)
	post := concat(headersFrame(1, false), frame(h2.Data, h2.FlagEndStream, 1, "hello"))
	for _, v := range []struct {
		name    string
		h2c     bool
		request []byte
		serve   func(net.Conn)
	}{{"HTTP/1.1", false, get, serveFixedHTTP1}, {"h2c", true, get, serveFixedH2C}, {"h2c with a body", true, post, serveFixedH2C}} {
		t.Run(v.name, func(t *testing.T) {
			r := newRig(t, serveRaw(t, v.serve), func(o *options) {
				o.gate.Observer, o.gate.ConcurrencyLimit = noopObserver{}, 10
				o.gate.ResponseStartTimeout, o.gate.IdleTimeout = time.Minute, time.Minute
				if o.protocol = 1; v.h2c {
					o.protocol = 2
				}
			})
			c := r.dialUnread(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
			_, _ = c.conn.Write(concat(frame(h2.Settings, h2.FlagAck, 0, ""), frame(h2.WindowUpdate, 0, 0, u32(1<<30))))
			in := &frameReader{conn: c.conn}
			var out []byte
			for range atOnce {
				out = append(out, v.request...)
			}
			each, id := len(out)/atOnce, uint32(1)
			round := func() {
				for i := range atOnce {
					for at := i * each; at < (i+1)*each; at += h2.FrameHeaderLen + int(out[at+2]) {
						binary.BigEndian.PutUint32(out[at+5:], id)
					}
					id += 2
				}
				if _, err := c.conn.Write(out); err != nil {
					t.Fatal(err)
				}
				for ended := 0; ended < atOnce; {
					typ, flags, _, ok := in.next()
					if !ok || typ == h2.RSTStream || typ == h2.GoAway {
						t.Fatalf("a frame of type %d; connection closed: %v", typ, !ok)
					}
					if (typ == h2.Data || typ == h2.Headers) && flags&h2.FlagEndStream != 0 {
						ended++
					}
				}
			}
			for range 50 {
				round()
			}
			least := math.Inf(1)
			// The lowest of three measurements counts, because the runtime itself may
			// allocate during a measurement.
			for range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range rounds {
					round()
				}
				runtime.ReadMemStats(&after)
				least = min(least, float64(after.Mallocs-before.Mallocs)/(atOnce*rounds))
			}
			if !raceDetector && least >= most {
				t.Errorf("%.3f allocations per request", least)
			}
		})
	}
}
