package http2

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the container's end of an HTTP/2 connection. It can send any frames.
type peer struct {
	*http2.Framer
	conn   net.Conn
	number int64 // of the connection, from 1
	write  sync.Mutex
	block  bytes.Buffer
	encode *hpack.Encoder
}

// serveFrames starts a container that speaks only HTTP/2. It sends the settings and calls
// the function handle with each frame. If handle returns false, it closes the connection.
func serveFrames(t *testing.T, settings []http2.Setting, handle func(p *peer, f http2.Frame) bool) *container {
	return servePeers(t, func(p *peer) error { return p.WriteSettings(settings...) }, handle)
}

// servePeers is like serveFrames, but the function begin sends the container's SETTINGS.
// It is called once per connection, after the client's preface. If begin is nil, the
// container neither sends nor acknowledges SETTINGS.
func servePeers(t *testing.T, begin func(p *peer) error, handle func(p *peer, f http2.Frame) bool) *container {
	var conns atomic.Int64
	return serveRaw(t, func(conn net.Conn) {
		p := &peer{Framer: http2.NewFramer(conn, conn), conn: conn, number: conns.Inc()}
		p.AllowIllegalWrites = true
		p.encode = hpack.NewEncoder(&p.block)
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		if begin != nil && begin(p) != nil {
			return
		}
		for {
			f, err := p.ReadFrame()
			if err != nil {
				return
			}
			if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() && begin != nil {
				_ = p.do(p.WriteSettingsAck)
			}
			if !handle(p, f) {
				return
			}
		}
	})
}

func (p *peer) do(f func() error) error {
	p.write.Lock()
	defer p.write.Unlock()
	return f()
}

func (p *peer) head(id uint32, end bool, fields ...string) {
	_ = p.do(func() error {
		p.block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = p.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end})
	})
}

func (p *peer) respond(id uint32, body string) {
	p.head(id, false, ":status", "200")
	_ = p.do(func() error { return p.WriteData(id, true, []byte(body)) })
}

func field(f *http2.MetaHeadersFrame, name string) string {
	for _, x := range f.Fields {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}
