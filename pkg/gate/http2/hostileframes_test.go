package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// frameCase is a request with unusual or malformed frames. The field expect has one of
// the values that are explained in testdata/requests.txt, or one of these:
//
//	end        the connection ends, and the container receives nothing of the request
//	cut        the connection ends; the head may have been forwarded
//	cancelled  the client resets the stream
//	any        the request may be forwarded or not, but never in part
type frameCase struct {
	name, expect string
	frames       func(id uint32, target string) []byte
	body         string // body that the container must receive
}

const endAll = h2.FlagEndHeaders | h2.FlagEndStream

// targeted returns the field block of a request with a literal target.
func targeted(method byte, target string) string {
	return string([]byte{method, 0x86, 0x04, byte(len(target))}) + target + "\x01\x01h"
}

const getByte, postByte = 0x82, 0x83

// oneHeaders returns a case that sends a single HEADERS frame.
func oneHeaders(flags h2.Flags, payload func(target string) string) func(uint32, string) []byte {
	return func(id uint32, target string) []byte { return frame(h2.Headers, flags, id, payload(target)) }
}

func get(before, behind string) func(uint32, string) []byte {
	return oneHeaders(endAll, func(t string) string { return before + targeted(getByte, t) + behind })
}

// post returns a POST head followed by frames.
func post(frames func(id uint32) []byte) func(uint32, string) []byte {
	return func(id uint32, t string) []byte {
		return concat(frame(h2.Headers, h2.FlagEndHeaders, id, targeted(postByte, t)), frames(id))
	}
}

func split(t h2.Type, at int, rest h2.Type) func(uint32, string) []byte {
	return func(id uint32, target string) []byte {
		block := targeted(getByte, target)
		return concat(frame(t, h2.FlagEndStream, id, block[:at]), frame(rest, h2.FlagEndHeaders, id, block[at:]))
	}
}

var frameCases = []frameCase{
	{"padding", "forward", oneHeaders(endAll|8, func(t string) string { return "\x03" + targeted(getByte, t) + "xyz" }), ""},
	{"padding of length 0", "forward", oneHeaders(endAll|8, func(t string) string { return "\x00" + targeted(getByte, t) }), ""},
	{"padding as long as the frame", "end", oneHeaders(endAll|8, func(t string) string { return string(rune(len(targeted(getByte, t))+1)) + targeted(getByte, t) }), ""},
	{"padding beyond the frame", "end", oneHeaders(endAll|8, func(t string) string { return "\x7f" + targeted(getByte, t) }), ""},
	{"padding without its length", "end", oneHeaders(endAll|8, func(string) string { return "" }), ""},
	{"padding that covers the fields", "reject", oneHeaders(endAll|8, func(t string) string {
		b := targeted(getByte, t)
		return string(rune(len(b))) + b
	}), ""},
	{"a priority", "forward", oneHeaders(endAll|0x20, func(t string) string { return u32(0) + "\x10" + targeted(getByte, t) }), ""},
	{"a priority and padding", "forward", oneHeaders(endAll|0x28, func(t string) string { return "\x02" + u32(0) + "\x10" + targeted(getByte, t) + "zz" }), ""},
	{"half a priority", "end", oneHeaders(endAll|0x20, func(string) string { return "\x00\x00" }), ""},
	{"a dependency on itself", "reject", func(id uint32, t string) []byte {
		return frame(h2.Headers, endAll|0x20, id, u32(id)+"\x10"+targeted(getByte, t))
	}, ""},
	{"undefined flags", "forward", oneHeaders(endAll|0xd2&^8, func(t string) string { return targeted(getByte, t) }), ""},
	{"the reserved bit of a stream", "forward", func(id uint32, t string) []byte { return frame(h2.Headers, endAll, id|1<<31, targeted(getByte, t)) }, ""},
	{"CONTINUATION", "forward", split(h2.Headers, 3, h2.Continuation), ""},
	{"CONTINUATION after empty HEADERS", "forward", split(h2.Headers, 0, h2.Continuation), ""},
	{"HEADERS instead of CONTINUATION", "end", split(h2.Headers, 3, h2.Headers), ""},
	{"DATA instead of CONTINUATION", "end", split(h2.Headers, 3, h2.Data), ""},
	{"an unknown frame instead of CONTINUATION", "end", split(h2.Headers, 3, 0xbe), ""},
	{"CONTINUATION of another stream", "end", func(id uint32, t string) []byte {
		return concat(frame(h2.Headers, h2.FlagEndStream, id, targeted(getByte, t)), frame(h2.Continuation, h2.FlagEndHeaders, id+2, ""))
	}, ""},
	{"CONTINUATION first", "end", func(id uint32, t string) []byte { return frame(h2.Continuation, endAll, id, targeted(getByte, t)) }, ""},
	{"PUSH_PROMISE of a client", "end", func(id uint32, t string) []byte {
		return frame(h2.PushPromise, h2.FlagEndHeaders, id, u32(id+1)+targeted(getByte, t))
	}, ""},
	{"an even stream identifier", "end", func(id uint32, t string) []byte { return frame(h2.Headers, endAll, id+1, targeted(getByte, t)) }, ""},
	{"stream 0", "end", func(_ uint32, t string) []byte { return frame(h2.Headers, endAll, 0, targeted(getByte, t)) }, ""},
	{"DATA on an idle stream", "end", func(id uint32, _ string) []byte { return frame(h2.Data, h2.FlagEndStream, id, "x") }, ""},
	{"a frame beyond SETTINGS_MAX_FRAME_SIZE", "end", func(id uint32, t string) []byte {
		return frame(h2.Headers, endAll, id, targeted(getByte, t)+strings.Repeat("\x00\x01x\x01y", 5000))
	}, ""},

	{"a size update at the start", "forward", get("\x20", ""), ""},
	{"two size updates at the start", "forward", get("\x20\x3f\xe1\x1f", ""), ""},
	{"a size update at the end", "end", get("", "\x20"), ""},
	{"a size update beyond the limit", "end", get("\x3f\xe2\x1f", ""), ""},
	{"index 0", "end", get("", "\x80"), ""},
	{"an index beyond the tables", "end", get("", "\xff\x80\x01"), ""},
	{"an index of 2^35", "end", get("", "\xff\xff\xff\xff\xff\x7f"), ""},
	{"an integer without end", "end", get("", "\xff"+strings.Repeat("\x80", 20)), ""},
	{"a string beyond the block", "end", get("", "\x00\x01x\x7f"), ""},
	{"half a field", "end", get("", "\x00\x01x"), ""},
	{"invalid Huffman padding", "end", get("", "\x00\x01x\x81\x00"), ""},
	{"Huffman padding of a whole byte", "end", get("", "\x00\x01x\x82\x1f\xff"), ""},
	{"Huffman with EOS", "end", get("", "\x00\x01x\x84\xff\xff\xff\xff"), ""},
	{"CR and LF in Huffman", "reject", get("", "\x00\x01x\x87\xff\xff\xff\x9f\xff\xff\xfc"), ""},
	{"an upper-case name from the table", "reject", get("\x40\x01X\x01v", ""), ""},
	{"an index as value of a name from the table", "forward", get("", "\x40\x01x\x01v\x7e\x01w"), ""},

	{"padded DATA", "forward", post(func(id uint32) []byte { return frame(h2.Data, h2.FlagEndStream|8, id, "\x02abczz") }), "abc"},
	{"DATA of padding and then data", "forward", post(func(id uint32) []byte {
		return concat(frame(h2.Data, 8, id, "\x02zz"), frame(h2.Data, h2.FlagEndStream, id, "abc"))
	}), "abc"},
	{"padding of DATA beyond the frame", "cut", post(func(id uint32) []byte { return frame(h2.Data, h2.FlagEndStream|8, id, "\x7fabc") }), ""},
	{"padding of DATA that is the whole frame", "cut", post(func(id uint32) []byte { return frame(h2.Data, h2.FlagEndStream|8, id, "\x04abc") }), ""},
	{"END_STREAM in an empty frame", "forward", post(func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Data, h2.FlagEndStream, id, ""))
	}), "abc"},
	{"trailers that do not end the stream", "break", post(func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Headers, h2.FlagEndHeaders, id, "\x00\x01x\x01y"))
	}), ""},
	{"a second head", "break", post(func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Headers, endAll, id, getHead))
	}), ""},
	{"DATA after END_STREAM", "break", post(func(id uint32) []byte {
		return concat(frame(h2.Headers, endAll, id, "\x00\x01x\x01X"), frame(h2.Data, h2.FlagEndStream, id, "GET /smuggled"))
	}), "any"},
	{"RST_STREAM before the end", "cancelled", post(func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.RSTStream, 0, id, u32(8)))
	}), ""},
	{"RST_STREAM of 3 bytes", "cut", post(func(id uint32) []byte { return frame(h2.RSTStream, 0, id, "abc") }), ""},
	{"RST_STREAM of an idle stream", "end", func(id uint32, _ string) []byte { return frame(h2.RSTStream, 0, id, u32(8)) }, ""},
	{"WINDOW_UPDATE of 3 bytes", "cut", post(func(id uint32) []byte { return frame(h2.WindowUpdate, 0, id, "abc") }), ""},
	{"WINDOW_UPDATE of an idle stream", "end", func(id uint32, _ string) []byte { return frame(h2.WindowUpdate, 0, id, u32(8)) }, ""},
	{"WINDOW_UPDATE of 0", "break", post(func(id uint32) []byte { return frame(h2.WindowUpdate, 0, id, u32(0)) }), ""},
	{"WINDOW_UPDATE of 0 of the connection", "cut", post(func(uint32) []byte { return frame(h2.WindowUpdate, 0, 0, u32(0)) }), ""},
	{"SETTINGS of a stream", "cut", post(func(id uint32) []byte { return frame(h2.Settings, 0, id, "") }), ""},
	{"SETTINGS of 5 bytes", "cut", post(func(uint32) []byte { return frame(h2.Settings, 0, 0, "abcde") }), ""},
	{"an acknowledgement of SETTINGS with a payload", "cut", post(func(uint32) []byte { return frame(h2.Settings, h2.FlagAck, 0, "abcdef") }), ""},
	{"SETTINGS_ENABLE_PUSH of 2", "cut", post(func(uint32) []byte { return frame(h2.Settings, 0, 0, "\x00\x02"+u32(2)) }), ""},
	{"SETTINGS_MAX_FRAME_SIZE of 1", "cut", post(func(uint32) []byte { return frame(h2.Settings, 0, 0, "\x00\x05"+u32(1)) }), ""},
	{"SETTINGS_ENABLE_CONNECT_PROTOCOL of 2", "any", post(func(id uint32) []byte {
		return concat(frame(h2.Settings, 0, 0, "\x00\x08"+u32(2)), frame(h2.Data, h2.FlagEndStream, id, "abc"))
	}), "abc"},
	{"an unknown setting", "forward", post(func(id uint32) []byte {
		return concat(frame(h2.Settings, 0, 0, "\xff\x08"+u32(2)), frame(h2.Data, h2.FlagEndStream, id, "abc"))
	}), "abc"},
	{"PING of 7 bytes", "cut", post(func(uint32) []byte { return frame(h2.Ping, 0, 0, "1234567") }), ""},
	{"PING of a stream", "cut", post(func(id uint32) []byte { return frame(h2.Ping, 0, id, "12345678") }), ""},
	{"GOAWAY of a stream", "cut", post(func(id uint32) []byte { return frame(h2.GoAway, 0, id, u32(0)+u32(0)) }), ""},
	{"GOAWAY of 7 bytes", "cut", post(func(uint32) []byte { return frame(h2.GoAway, 0, 0, "1234567") }), ""},
	{"an unknown frame before DATA", "forward", post(func(id uint32) []byte {
		return concat(frame(0xbe, 0xff, id, "GET /smuggled"), frame(h2.Data, h2.FlagEndStream, id, "abc"))
	}), "abc"},
	{"PRIORITY of an idle stream before DATA", "forward", post(func(id uint32) []byte {
		return concat(frame(h2.Priority, 0, id+100, u32(0)+"\x10"), frame(h2.Data, h2.FlagEndStream, id, "abc"))
	}), "abc"},
}

func TestHostileFramesAreRejectedOrForwardedUnambiguously(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) { runFrames(t, new(recorder), upstream.HTTP1) })
	t.Run("h2c", func(t *testing.T) { runFrames(t, new(frameRecorder), upstream.H2C) })
}

func runFrames(t *testing.T, seen recordingContainer, protocol upstream.Protocol) {
	r := newRig(t, serveRaw(t, seen.serve), func(o *options) { o.protocol = protocol })
	t.Logf("%d cases", len(frameCases))
	for i, f := range frameCases {
		t.Run(f.name, func(t *testing.T) {
			c := r.dial()
			// works sends a request whose fields are all encoded without indexing, so that
			// the HPACK tables stay unchanged.
			works := func(id uint32) {
				_ = c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, id, targeted(getByte, "/works"))
				c.want(id, "200", "")
			}
			works(1)
			seen.take()
			const id = 3
			target := fmt.Sprintf("/token%d", i)
			b := f.frames(id, target)
			_ = c.do(func() error { _, err := c.conn.Write(b); return err })
			if f.expect == "cancelled" {
				until(t, "the end of the request", func() bool { return r.gate.Admission.InFlight() == 0 })
			} else {
				until(t, "the end of the stream or of the connection", func() bool { g := c.of(id); return g.over() || c.over() })
			}
			g := c.of(id)
			ended := f.expect == "end" || f.expect == "cut"
			if f.expect != "any" && c.over() != ended {
				t.Errorf("the connection has ended: %v", c.over())
			}
			if !c.over() {
				works(id + 2)
			}
			other := r.dial()
			other.works()
			_ = other.conn.Close()
			_ = c.conn.Close()
			raw, requests, garbage := seen.take()
			var mine []string
			for _, q := range requests {
				if q != "GET /works " {
					mine = append(mine, q)
				}
			}
			if len(garbage) > 0 || bytes.Contains(raw, []byte("smuggled")) {
				t.Errorf("the container could not parse %q, received %q", garbage, raw)
			}
			method := "POST "
			if f.body == "" {
				method = "GET "
			}
			whole := len(mine) == 1 && mine[0] == method+target+" "+f.body
			switch f.expect {
			case "forward":
				if !whole || g.status() != "200" {
					t.Errorf("response %v, reset %v %v; the container received %q", g.head, g.reset, g.code, mine)
				}
			case "any":
				if len(mine) > 0 && !whole {
					t.Errorf("the container received %q", mine)
				}
			case "reject", "end":
				if bytes.Contains(raw, []byte("token")) || len(mine) > 0 || f.expect == "reject" && !rejected(g) {
					t.Errorf("response %v, reset %v %v; the container received %q", g.head, g.reset, g.code, raw)
				}
			default:
				if len(mine) > 0 || f.expect == "break" && !rejected(g) {
					t.Errorf("response %v, reset %v %v; the container received %q", g.head, g.reset, g.code, mine)
				}
			}
			until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
		})
	}
}
