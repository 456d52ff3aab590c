package http2

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/internal/testkit"
)

// client is an HTTP/2 client connection that can send any frames. It records received
// frames in the background and acknowledges SETTINGS and PING.
type client struct {
	t    *testing.T
	conn *net.TCPConn
	*http2.Framer
	write  sync.Mutex
	block  bytes.Buffer
	encode *hpack.Encoder
	last   uint32

	autoCredit bool // releases the credit of received DATA at once

	mu      sync.Mutex
	streams map[uint32]*got
	goAways []http2.GoAwayFrame
	pings   int // number of PING acknowledgements
	acks    int // number of SETTINGS acknowledgements
	window  int64
	ended   bool
	err     error
}

// got is the record of the frames received on a stream.
type got struct {
	block    []byte // received part of the field block of an incomplete head
	ends     bool   // the incomplete head has END_STREAM
	interim  []map[string]string
	head     map[string]string
	names    []string // names of the head's fields, in order
	trailers map[string]string
	body     []byte
	size     int
	frames   int
	ended    bool
	reset    bool
	code     http2.ErrCode
}

func (g *got) status() string { return g.head[":status"] }

// over reports whether the stream has been closed.
func (g *got) over() bool { return g.ended || g.reset }

// dial opens a connection with the given settings.
func (r *rig) dial(settings ...http2.Setting) *client {
	r.t.Helper()
	c := r.dialUnread(settings...)
	done := make(chan struct{})
	go func() { defer close(done); c.read() }()
	r.t.Cleanup(func() { _ = c.conn.Close(); <-done })
	return c
}

// dialUnread opens a connection without reading from it.
func (r *rig) dialUnread(settings ...http2.Setting) *client {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(3 * testkit.Timeout))
	c := &client{t: r.t, conn: conn.(*net.TCPConn), streams: map[uint32]*got{}, autoCredit: true}
	c.Framer = http2.NewFramer(conn, conn)
	c.Framer.AllowIllegalWrites = true
	c.encode = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		r.t.Fatal(err)
	}
	if err := c.WriteSettings(settings...); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (c *client) read() {
	decode := hpack.NewDecoder(4096, nil)
	for {
		f, err := c.ReadFrame()
		if err != nil {
			c.mu.Lock()
			c.ended, c.err = true, err
			c.mu.Unlock()
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.do(func() error { return c.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.do(func() error { return c.WritePing(true, f.Data) })
			}
		}
		c.mu.Lock()
		c.record(f, decode)
		c.mu.Unlock()
		if f, ok := f.(*http2.DataFrame); ok && c.autoCredit && f.Length > 0 {
			c.do(func() error {
				if !f.StreamEnded() {
					_ = c.WriteWindowUpdate(f.StreamID, f.Length)
				}
				return c.WriteWindowUpdate(0, f.Length)
			})
		}
	}
}

func (c *client) record(f http2.Frame, decode *hpack.Decoder) {
	s := c.streams[f.Header().StreamID]
	if s == nil {
		s = &got{}
		c.streams[f.Header().StreamID] = s
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		s.block = append(s.block[:0], f.HeaderBlockFragment()...)
		s.ends = f.StreamEnded()
		if f.HeadersEnded() {
			c.recordHead(s, decode)
		}
	case *http2.ContinuationFrame:
		s.block = append(s.block, f.HeaderBlockFragment()...)
		if f.HeadersEnded() {
			c.recordHead(s, decode)
		}
	case *http2.DataFrame:
		s.frames++
		s.size += len(f.Data())
		if len(s.body) < 1<<16 {
			s.body = append(s.body, f.Data()...)
		}
		s.ended = s.ended || f.StreamEnded()
	case *http2.RSTStreamFrame:
		s.reset, s.code = true, f.ErrCode
	case *http2.GoAwayFrame:
		c.goAways = append(c.goAways, *f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.pings++
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			c.acks++
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		}
	}
}

// recordHead decodes a complete field block.
func (c *client) recordHead(s *got, decode *hpack.Decoder) {
	fields, err := decode.DecodeFull(s.block)
	if err != nil {
		c.t.Errorf("HPACK of the gate: %v", err)
	}
	m, names := map[string]string{}, []string{}
	for _, x := range fields {
		names = append(names, x.Name)
		if old, ok := m[x.Name]; ok {
			m[x.Name] = old + "\n" + x.Value
		} else {
			m[x.Name] = x.Value
		}
	}
	switch {
	case s.head != nil:
		s.trailers = m
	case strings.HasPrefix(m[":status"], "1"):
		s.interim = append(s.interim, m)
	default:
		s.head, s.names = m, names
	}
	s.ended = s.ended || s.ends
}

// do runs f, which writes to the connection. No other write runs at the same time.
func (c *client) do(f func() error) error {
	c.write.Lock()
	defer c.write.Unlock()
	return f()
}

// request returns the pseudo-header fields of a request and the given further fields.
// Names and values alternate.
func request(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "h"}, more...)
}

// fields encodes a field block.
func (c *client) fields(fields []string) []byte {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = c.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

func (c *client) open(end bool, fields ...string) (id uint32) {
	_ = c.do(func() error {
		id = c.nextID()
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields(fields), EndHeaders: true, EndStream: end})
	})
	return id
}

// nextID returns the next stream identifier. The caller holds c.write.
func (c *client) nextID() uint32 {
	if c.last == 0 {
		c.last = 1
	} else {
		c.last += 2
	}
	return c.last
}

func (c *client) get(path string, more ...string) uint32 {
	return c.open(true, request("GET", path, more...)...)
}

// data sends DATA, ignoring windows.
func (c *client) data(id uint32, end bool, b string) error {
	return c.do(func() error { return c.WriteData(id, end, []byte(b)) })
}

func (c *client) raw(t http2.FrameType, flags http2.Flags, id uint32, payload string) error {
	return c.do(func() error { return c.WriteRawFrame(t, flags, id, []byte(payload)) })
}

// of returns a copy of the record of stream id. For an unknown stream, it returns the
// zero value.
func (c *client) of(id uint32) got {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		return *s
	}
	return got{}
}

// await returns the record of a stream when it is closed.
func (c *client) await(id uint32) got {
	c.t.Helper()
	until(c.t, "the end of a stream", func() bool { g := c.of(id); return g.over() || c.over() })
	return c.of(id)
}

func (c *client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// want waits for a response and compares it with the expected one.
func (c *client) want(id uint32, status, body string) got {
	c.t.Helper()
	g := c.await(id)
	if g.status() != status || string(g.body) != body || !g.ended {
		c.t.Errorf("stream %d: %v %q (ended %v, reset %v %v), want %s %q", id, g.head, g.body, g.ended, g.reset, g.code, status, body)
	}
	return g
}

// wantGoAway waits for the end of the connection and compares the code of its last
// GOAWAY.
func (c *client) wantGoAway(codes ...http2.ErrCode) {
	c.t.Helper()
	until(c.t, "the end of the connection", c.over)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.goAways) == 0 {
		c.t.Errorf("the connection ended without GOAWAY (%v)", c.err)
		return
	}
	last := c.goAways[len(c.goAways)-1].ErrCode
	for _, code := range codes {
		if last == code {
			return
		}
	}
	c.t.Errorf("GOAWAY %v, want %v", last, codes)
}

// works checks that another request on the connection is served.
func (c *client) works() {
	c.t.Helper()
	if g := c.await(c.get("/works")); g.status() != "200" {
		c.t.Errorf("a further request on the connection failed: %+v (connection closed: %v)", g, c.over())
	}
}

func u32(n uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return string(b[:])
}
