package http2

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frameRecorder is an h2c container that records all fields, DATA and complete requests.
// It checks them with its own implementation of RFC 9113 sections 8.2 and 8.3, not with
// that of a library.
type frameRecorder struct{ recorder }

func (r *frameRecorder) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *frameRecorder) complain(format string, args ...any) {
	r.locked(func() { r.garbage = append(r.garbage, fmt.Sprintf(format, args...)) })
}

func (r *frameRecorder) serve(conn net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		r.complain("preface %q, %v", preface, err)
		return
	}
	var write sync.Mutex
	framer := http2.NewFramer(conn, conn)
	framer.SetMaxReadFrameSize(16 << 10)
	decoder := hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	type open struct {
		line, body string
		length     string
	}
	streams := map[uint32]*open{}
	var last, headers uint32
	var block []byte
	var end bool
	done := func(id uint32) {
		s := streams[id]
		delete(streams, id)
		if s.length != "" && s.length != fmt.Sprint(len(s.body)) {
			r.complain("a length of %s but %d bytes", s.length, len(s.body))
		}
		r.locked(func() { r.requests = append(r.requests, s.line+" "+s.body) })
		write.Lock()
		defer write.Unlock()
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true})
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			if code, ok := err.(http2.ConnectionError); ok {
				r.complain("an invalid frame: %v", code)
			}
			return
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.RSTStreamFrame:
			if id > last {
				r.complain("RST_STREAM of stream %d, which is idle", id)
			}
			delete(streams, id)
		case *http2.DataFrame:
			r.Write(f.Data())
			s := streams[id]
			if s == nil {
				r.complain("DATA on stream %d, which is not open", id)
				return
			}
			s.body += string(f.Data())
			if n := uint32(f.Length); n > 0 {
				_ = framer.WriteWindowUpdate(0, n)
			}
			if f.StreamEnded() {
				done(id)
			}
		case *http2.HeadersFrame:
			headers, end, block = id, f.StreamEnded(), append(block[:0], f.HeaderBlockFragment()...)
		case *http2.ContinuationFrame:
			block = append(block, f.HeaderBlockFragment()...)
		}
		ends := false
		switch f := f.(type) {
		case *http2.HeadersFrame:
			ends = f.HeadersEnded()
		case *http2.ContinuationFrame:
			ends = f.HeadersEnded()
		}
		if !ends {
			continue
		}
		fields, err := decoder.DecodeFull(block)
		if err != nil {
			r.complain("HPACK: %v", err)
			return
		}
		for _, f := range fields {
			r.Write([]byte(f.Name + ": " + f.Value + "\n"))
		}
		s := streams[headers]
		if s == nil {
			if headers <= last || headers%2 == 0 {
				r.complain("HEADERS of stream %d after stream %d", headers, last)
				return
			}
			last = headers
			s = &open{}
			s.line, s.length = r.head(fields)
			streams[headers] = s
		} else {
			if !end {
				r.complain("trailers that do not end the stream")
			}
			for _, f := range fields {
				r.field(f, true)
			}
		}
		if end {
			done(headers)
		}
	}
}

// head checks the head of a request. The result line is the method, a space and the path.
// The result length is the Content-Length, or "" if there is none.
func (r *frameRecorder) head(fields []hpack.HeaderField) (line, length string) {
	pseudo := map[string]string{}
	regular := false
	for _, f := range fields {
		if !strings.HasPrefix(f.Name, ":") {
			regular = true
			r.field(f, false)
			switch f.Name {
			case "content-length":
				if length != "" {
					r.complain("two lengths")
				}
				length = f.Value
			case "host":
				if f.Value != pseudo[":authority"] {
					r.complain("two hosts, %q and %q", pseudo[":authority"], f.Value)
				}
			}
			continue
		}
		if _, twice := pseudo[f.Name]; twice || regular || !strings.Contains(" :method :scheme :path :authority :protocol ", " "+f.Name+" ") {
			r.complain("pseudo-field %s among %q", f.Name, fields)
		}
		if strings.ContainsFunc(f.Value, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			r.complain("%s is %q", f.Name, f.Value)
		}
		pseudo[f.Name] = f.Value
	}
	if pseudo[":method"] == "" || pseudo[":scheme"] == "" || pseudo[":authority"] == "" || !strings.HasPrefix(pseudo[":path"], "/") && pseudo[":path"] != "*" {
		r.complain("a head of %q", fields)
	}
	return pseudo[":method"] + " " + pseudo[":path"], length
}

func (r *frameRecorder) field(f hpack.HeaderField, trailer bool) {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
	switch {
	case f.Name == "" || strings.Trim(f.Name, token) != "":
		r.complain("name %q", f.Name)
	case strings.ContainsAny(f.Value, "\x00\r\n") || strings.Trim(f.Value, " \t") != f.Value:
		r.complain("value %q", f.Value)
	case strings.Contains(" connection keep-alive proxy-connection transfer-encoding upgrade ", " "+f.Name+" "),
		f.Name == "te" && f.Value != "trailers",
		trailer && strings.Contains(" content-length host trailer authorization expect ", " "+f.Name+" "):
		r.complain("field %s: %s, trailer %v", f.Name, f.Value, trailer)
	}
}
