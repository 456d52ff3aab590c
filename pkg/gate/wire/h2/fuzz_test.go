package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The fuzz tests pass the same bytes to this package and to x/net. A message that both
// accept must have the same meaning for both. A message that this package rejects must
// also be rejected by x/net, unless this map contains the error.
var stricter = map[*Error]string{
	// These errors concern frames. The Framer of x/net does not detect them. The server
	// or the client of x/net detects some of them. The others are violations of limits
	// that x/net does not have.
	errPush:          "PUSH_PROMISE is never enabled",
	errBlockTooLong:  "limit",
	errBlockInBits:   "limit",
	errSelfDependent: "found by x/net's server",

	// HPACK.
	errInteger:    "x/net takes leading zeros of up to nine bytes",
	errSizeUpdate: "x/net takes an update behind a field while the table is empty",
	errListBomb:   "limit",

	// These errors concern heads. The server of x/net detects them later or not at all.
	// So FuzzHeads compares the result with naiveRequest and naiveResponse.
	errListTooLarge: "limit", errValue: "white space around a value", errPseudo: "", errMethod: "", errScheme: "", errPath: "",
	errAuthority: "", errTwoHosts: "", errConnect: "", errProtocol: "", errConnection: "", errTE: "", errLength: "",
	errStatus: "", errSwitching: "",
}

// looser lists errors of x/net for input that this package accepts.
var looser = []string{
	// If the table size is reduced and then raised, RFC 7541 section 4.2 requires two
	// updates in a row. The decoder of x/net rejects the second one, unless its table is
	// empty.
	"dynamic table size update MUST occur at the beginning",
}

func isLooser(err error) bool {
	return slices.ContainsFunc(looser, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// cut returns the positions at which a test splits the input. Piece i has steps[i] + 1
// bytes, so that no piece is empty. After the last step, cut continues with the first
// one. Without steps, the input is not split.
func cut(in string, steps []byte) (ends []int) {
	for at, i := 0, 0; len(steps) > 0; i++ {
		if at += 1 + int(steps[i%len(steps)]); at >= len(in) {
			break
		}
		ends = append(ends, at)
	}
	return ends
}

// theirFrames parses the input with x/net and returns an outline of each frame.
func theirFrames(in string) (all []string, err error) {
	r := http2.NewFramer(nil, strings.NewReader(in))
	r.SetMaxReadFrameSize(MinMaxFrameSize)
	var head *Frame
	for {
		x, err := r.ReadFrame()
		if err != nil {
			return all, err
		}
		h := x.Header()
		f := Frame{Type: Type(h.Type), Flags: Flags(h.Flags), Stream: h.StreamID, Length: h.Length}
		switch x := x.(type) {
		case *http2.DataFrame:
			f.Payload, f.Padding, f.EndStream = x.Data(), h.Length-uint32(len(x.Data())), x.StreamEnded()
		case *http2.HeadersFrame:
			f.Payload, f.EndStream = bytes.Clone(x.HeaderBlockFragment()), x.StreamEnded()
			if x.HasPriority() && x.Priority.StreamDep == f.Stream {
				f.Err = errSelfDependent
			}
			if !x.HeadersEnded() {
				head = &f
				continue
			}
		case *http2.ContinuationFrame:
			head.Payload = append(head.Payload, x.HeaderBlockFragment()...)
			if !x.HeadersEnded() {
				continue
			}
			f = *head
		case *http2.PriorityFrame:
			if x.StreamDep == f.Stream {
				f.Err = errSelfDependent
			}
		case *http2.RSTStreamFrame:
			f.Code = Code(x.ErrCode)
		case *http2.SettingsFrame:
			x.ForeachSetting(func(s http2.Setting) error {
				f.Payload = append(f.Payload, AppendSettings(nil, Setting{SettingID(s.ID), s.Val})[FrameHeaderLen:]...)
				return nil
			})
		case *http2.PingFrame:
			f.Payload = x.Data[:]
		case *http2.GoAwayFrame:
			f.LastStream, f.Code, f.Payload = x.LastStreamID, Code(x.ErrCode), x.DebugData()
		case *http2.WindowUpdateFrame:
			f.Increment = x.Increment
		}
		all = append(all, f.outline())
	}
}

// wholeFrames passes the input to a Reader, split at the positions that cut returns. It
// joins the pieces of each DATA frame and returns an outline of each frame. The result
// left is 0 if no frame and no field block is incomplete at the end of the input.
func wholeFrames(t *testing.T, in string, steps []byte) (all []string, left int, err *Error) {
	r := Reader{settingsSeen: true}
	var held []byte
	var data *Frame
	from := 0
	for _, to := range append(cut(in, steps), len(in)) {
		held = append(held, in[from:to]...)
		from = to
		for {
			var f Frame
			n, ok, err := r.Next(held, &f)
			if n < 0 || n > len(held) {
				t.Fatalf("used %d of %d", n, len(held))
			}
			if err != nil {
				return all, len(held), err
			}
			if ok && f.Type == Data {
				if f.First != (data == nil) {
					t.Fatalf("first piece: %v, within a frame: %v", f.First, data != nil)
				}
				if data == nil {
					data = new(Frame)
					*data = f
					data.Payload = nil
				}
				data.Payload, data.EndStream = append(data.Payload, f.Payload...), f.EndStream
				if uint32(len(data.Payload))+data.Padding == data.Length {
					all = append(all, data.outline())
					data = nil
				}
			} else if ok {
				all = append(all, f.outline())
			}
			held = bytes.Clone(held[n:])
			if !ok {
				break
			}
		}
	}
	left = len(held) + int(r.skip) + int(r.dataLeft)
	if data != nil || r.inBlock {
		left++
	}
	return all, left, nil
}

func FuzzFrames(f *testing.F) {
	for _, in := range []string{
		settled + frame(Headers, FlagEndHeaders, 1, "block") + frame(Data, FlagPadded|FlagEndStream, 1, "\x02data\x00\x00"),
		frame(Headers, FlagPadded|FlagPriority, 3, "\x02\x80\x00\x00\x01\xffblock\x00\x00") + frame(Continuation, FlagEndHeaders, 3, "more"),
		frame(Priority, 0, 3, "\x00\x00\x00\x01\x10") + frame(RSTStream, 0, 3, "\x00\x00\x00\x08") + frame(Ping, FlagAck, 0, "12345678"),
		frame(GoAway, 0, 0, "\x80\x00\x00\x05\x00\x00\x00\x0bcalm") + frame(WindowUpdate, 0, 0, "\x80\x00\x00\x01") + frame(77, 0xff, 0, "x"),
		frame(PushPromise, FlagEndHeaders, 1, "\x00\x00\x00\x02"), frame(Settings, 0, 0, "\x00\x03\x00\x00\x00\x64"),
		string(benchFrames()),
	} {
		f.Add(in, []byte{})
		f.Add(in, []byte{0, 7})
	}
	f.Fuzz(func(t *testing.T, in string, steps []byte) {
		ours, left, err := wholeFrames(t, in, nil)
		if len(steps) > 0 {
			pieced, leftToo, errToo := wholeFrames(t, in, steps)
			if !slices.Equal(ours, pieced) || left != leftToo && err == nil || err != errToo {
				t.Fatalf("at once: %q, %d left, %v\nin pieces: %q, %d left, %v", ours, left, err, pieced, leftToo, errToo)
			}
		}
		theirs, theirErr := theirFrames(in)
		// This package may return more frames than x/net, for two reasons. It delivers
		// the data of a DATA frame before the padding has arrived. And x/net treats some
		// stream errors as connection errors, so that it stops there.
		for i := range theirs {
			if i >= len(ours) {
				if stricter[err] == "" {
					t.Fatalf("rejected with %v: %s", err, theirs[i])
				}
				return
			}
			if ours[i] != theirs[i] && !(err == nil && strings.HasPrefix(ours[i], "16/")) {
				t.Fatalf("frame %d is %s, x/net: %s", i, ours[i], theirs[i])
			}
		}
		if errors.Is(theirErr, io.EOF) || errors.Is(theirErr, io.ErrUnexpectedEOF) {
			if err == nil && left == 0 && len(ours) != len(theirs) {
				t.Fatalf("%q, x/net: %q", ours, theirs)
			}
			return
		}
		if err == nil && len(ours) > len(theirs) {
			next := ours[len(theirs)]
			if payload, found := strings.CutPrefix(next, "4/0 "); found {
				// x/net checks the values of settings when it reads the frame. This
				// package checks them in Apply.
				s := DefaultSettings()
				if _, err := s.Apply(unhex(t, payload), false); err != nil {
					return
				}
			}
			if !strings.HasSuffix(next, errPriorityLen.Reason) && !strings.HasSuffix(next, errNoIncrementOnStream.Reason) && !strings.HasPrefix(next, "16/") {
				t.Fatalf("accepted %s, x/net rejected it with %v", next, theirErr)
			}
		}
	})
}

func FuzzHuffman(f *testing.F) {
	for _, s := range []string{"", "www.example.com", "\x00\xff\n", "Mozilla/5.0 (X11; Linux x86_64)"} {
		f.Add([]byte(s))
		f.Add(hpack.AppendHuffmanString(nil, s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		want, err := hpack.HuffmanDecodeToString(in)
		got, how := appendDecoded([]byte("before"), in, 8*len(in))
		if (err == nil) != (how == decodedAll) || err == nil && string(got) != "before"+want {
			t.Fatalf("%x is %q, %d; x/net says %q, %v", in, got, how, want, err)
		}
		if err == nil && len(want) > 0 {
			if _, how := appendDecoded(nil, in, len(want)-1); how != tooLong {
				t.Fatalf("%x within a limit: %d", in, how)
			}
			if got, how := appendDecoded(nil, in, len(want)); how != decodedAll || string(got) != want {
				t.Fatalf("%x just within a limit: %q, %d", in, got, how)
			}
		}
		code := hpack.AppendHuffmanString(nil, string(in))
		if back, how := appendDecoded(nil, code, len(in)); how != decodedAll || !bytes.Equal(back, in) {
			t.Fatalf("%q comes back as %q, %d", in, back, how)
		}
	})
}

// FuzzDecoder decodes several blocks, each preceded by its length, on one connection.
func FuzzDecoder(f *testing.F) {
	add := func(list ...string) {
		var in []byte
		for _, b := range list {
			in = binary.BigEndian.AppendUint16(in, uint16(len(b)))
			in = append(in, b...)
		}
		f.Add(in, uint16(200))
	}
	for _, l := range benchLists {
		cold, warm := blocks(l.lines)
		add(string(cold), string(warm))
	}
	add("\x40\x01x\x01y", "\x3f\x01\xbe", "\x20\x3f\xe1\x1f\x7e\x00\xbe\xbf")
	add("\x10\x01x\x01y\x0f\x10\x00", "\x5f\x00\x03abc\xbe\xc0")
	f.Fuzz(func(t *testing.T, in []byte, small uint16) {
		ours, tight := Decoder{MaxList: 1 << 24}, Decoder{MaxList: int(small) + 1}
		var h, part Head
		var theirs []hpack.HeaderField
		x := hpack.NewDecoder(DefaultTableSize, func(f hpack.HeaderField) { theirs = append(theirs, f) })
		for len(in) >= 2 {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			block := in[2 : 2+n]
			in = in[2+n:]
			theirs = theirs[:0]
			_, theirErr := x.Write(block)
			if theirErr == nil {
				theirErr = x.Close()
			}
			err := ours.Decode(block, &h)
			if err == nil && theirErr != nil && !isLooser(theirErr) {
				t.Fatalf("%x accepted, x/net says %v", block, theirErr)
			}
			if err != nil && theirErr == nil && stricter[err] == "" {
				t.Fatalf("%x rejected with %v, x/net: %v", block, err, theirs)
			}
			if err != nil || theirErr != nil || len(theirs) > MaxFields {
				return
			}
			size := 0
			for i, f := range theirs {
				g := &h.Fields[i]
				if f.Name != string(h.NameOf(g)) || f.Value != string(h.ValueOf(g)) || f.Sensitive != g.Sensitive() {
					t.Fatalf("field %d of %x is %q: %q, x/net says %v", i, block, h.NameOf(g), h.ValueOf(g), f)
				}
				size += int(f.Size())
			}
			if len(h.Fields) != len(theirs) || h.Size != size || h.TooLarge {
				t.Fatalf("%d fields of %d, x/net read %d of %d", len(h.Fields), h.Size, len(theirs), size)
			}

			// Decode the block again with a small MaxList. The decoder must return the
			// first fields of the list. Its dynamic table must be the same as the table
			// of the decoder with the large MaxList.
			if err := tight.Decode(block, &part); err == errListBomb {
				return
			} else if err != nil {
				t.Fatalf("%x with a limit of %d: %v", block, tight.MaxList, err)
			}
			if got := part.lines(); !slices.Equal(got, h.lines()[:len(got)]) || part.TooLarge != (h.Size > tight.MaxList) ||
				!part.TooLarge && len(got) != len(theirs) {
				t.Fatalf("%x with a limit of %d: %q, too large %v", block, tight.MaxList, got, part.TooLarge)
			}
			if !slices.Equal(ours.table.lines(), tight.table.lines()) || ours.table.size != tight.table.size {
				t.Fatalf("tables differ: %q, with a limit %q", ours.table.lines(), tight.table.lines())
			}
		}
	})
}

// FuzzEncoder interprets its input as operations: encode a field, end a block, or change
// the table size.
func FuzzEncoder(f *testing.F) {
	f.Add([]byte("\x00\x02\x05\x00GET\x03\x05\x00GET\x05\x05\x00GET\xff\xfe\x10\x05\x05\x00GET\xff\x05\x05\x00GET"))
	f.Add([]byte("\x80\x03\x00x-y\x05value\x80\x03\x00x-y\x05value\x80\x03\x00x-y\x05value\xfc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		take := func(n int) []byte {
			n = min(n, len(in))
			b := in[:n]
			in = in[n:]
			return b
		}
		one := func() int {
			if b := take(1); len(b) == 1 {
				return int(b[0])
			}
			return 0
		}
		var e Encoder
		x := hpack.NewDecoder(DefaultTableSize, nil)
		var d Decoder
		d.MaxList = 1 << 24
		var h Head
		var block []byte
		var want []hpack.HeaderField
		end := func() {
			theirs, err := x.DecodeFull(block)
			if err != nil || len(theirs) != len(want) {
				t.Fatalf("x/net read %v, %v of %x, want %v", theirs, err, block, want)
			}
			if err := d.Decode(block, &h); err != nil || len(h.Fields) != len(want) {
				t.Fatalf("read %v, %v of %x, want %v", h.lines(), err, block, want)
			}
			for i, w := range want {
				if theirs[i].Name != w.Name || theirs[i].Value != w.Value || w.Sensitive && !theirs[i].Sensitive {
					t.Fatalf("field %d is %v, want %v", i, theirs[i], w)
				}
			}
			block, want = block[:0], want[:0]
		}
		for len(in) > 0 {
			switch op := one(); {
			case op == 0xff:
				end()
			case op == 0xfe:
				end()
				n := uint32(one() * 64)
				e.SetTableSize(n)
				x.SetAllowedMaxDynamicTableSize(min(n, DefaultTableSize))
			default:
				var name []byte
				if op < 0x80 {
					name = []byte(names[1+op%(nameCount-1)])
				} else {
					name = bytes.ToLower(take(one()))
				}
				value := take(one())
				if op&1 == 1 {
					value = bytes.Repeat(value, one())
				}
				sensitive := op%7 == 3
				block = e.field(block, LookupName(name), name, value, sensitive)
				want = append(want, hpack.HeaderField{Name: string(name), Value: string(value), Sensitive: sensitive})
			}
		}
		end()
	})
}

// FuzzHeads checks fields as a request head, as a response head and as trailers. In its
// input, \x00 follows each name and \x01 each value.
func FuzzHeads(f *testing.F) {
	for _, l := range benchLists {
		var s strings.Builder
		for _, l := range l.lines {
			fmt.Fprintf(&s, "%s\x00%s\x01", l.name, l.value)
		}
		f.Add(s.String())
	}
	for _, s := range []string{
		":method\x00CONNECT\x01:protocol\x00websocket\x01:scheme\x00https\x01:path\x00/c?d%\x01:authority\x00[::1]:80\x01host\x00[::1]:80",
		":method\x00OPTIONS\x01:path\x00*\x01:scheme\x00http\x01te\x00trailers\x01content-length\x003\x01content-length\x003\x01host\x00a:80",
		":method\x00GET\x01:path\x00/%4\x01:scheme\x001http\x01:authority\x00a\x01host\x00A:80\x01connection\x00close",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var lines []line
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for _, l := range strings.Split(in, "\x01") {
			name, value, _ := strings.Cut(l, "\x00")
			// In a value, \x02 represents \x00, because \x00 separates names and values.
			value = strings.ReplaceAll(value, "\x02", "\x00")
			lines = append(lines, line{name, value})
			enc.WriteField(hpack.HeaderField{Name: name, Value: value})
		}
		if block.Len() > MinMaxFrameSize {
			return
		}
		var h Head
		var d Decoder
		if err := d.Decode(block.Bytes(), &h); err != nil || h.TooLarge {
			return
		}

		var out bytes.Buffer
		x := http2.NewFramer(&out, &out)
		x.ReadMetaHeaders = hpack.NewDecoder(DefaultTableSize, nil)
		x.MaxHeaderListSize = 1 << 24
		x.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		_, theirErr := x.ReadFrame()

		for what, c := range map[string]struct {
			got   *Error
			naive bool
		}{
			"request":  {h.CheckRequest(), naiveRequest(lines)},
			"response": {h.CheckResponse(), naiveResponse(lines)},
			"trailers": {h.CheckTrailers(), naiveFields(lines) && !strings.HasPrefix(lines[0].name, ":")},
		} {
			if want := theirErr == nil && c.naive; (c.got == nil) != want {
				t.Errorf("%s %q: %v, x/net says %v, the reference %v", what, lines, c.got, theirErr, c.naive)
			}
			if _, listed := stricter[c.got]; c.got != nil && theirErr == nil && !listed {
				t.Errorf("%s %q: %v is not listed", what, lines, c.got)
			}
		}
		if h.CheckRequest() == nil {
			m := asMap(lines)
			host := m[":authority"]
			if host == "" {
				host = m["host"]
			}
			if string(h.Method()) != m[":method"] || string(h.Path()) != m[":path"] || string(h.Scheme()) != m[":scheme"] ||
				string(h.Authority()) != host || string(h.Protocol()) != m[":protocol"] {
				t.Errorf("%q: %q, %q, %q, %q, %q", lines, h.Method(), h.Path(), h.Scheme(), h.Authority(), h.Protocol())
			}
			if length, err := strconv.ParseInt(m["content-length"], 10, 64); err == nil && h.Length != length || err != nil && h.Length != -1 {
				t.Errorf("%q: length %d", lines, h.Length)
			}
		}
	})
}

func asMap(lines []line) map[string]string {
	m := map[string]string{}
	for _, l := range lines {
		m[l.name] = l.value
	}
	return m
}

func count(lines []line, name string) (n int) {
	for _, l := range lines {
		if l.name == name {
			n++
		}
	}
	return n
}

var (
	digits    = regexp.MustCompile(`^[0-9]{1,19}$`)
	token     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	scheme    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	target    = regexp.MustCompile(`^/([^\x00-\x20\x7f#?%]|%[0-9A-Fa-f]{2})*(\?[^\x00-\x20\x7f#]*)?$`)
	hopByHop  = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
	statusRow = regexp.MustCompile(`^[1-9][0-9][0-9]$`)
)

// naiveFields, naiveRequest and naiveResponse implement the rules of RFC 9113 section 8
// in the simplest way.
func naiveFields(lines []line) bool {
	length := ""
	for _, l := range lines {
		if strings.Trim(l.value, " \t") != l.value || slices.Contains(hopByHop, l.name) ||
			l.name == "te" && l.value != "" && !strings.EqualFold(l.value, "trailers") || l.name == "te" && len(l.value) > len("trailers") {
			return false
		}
		if l.name == "content-length" {
			n, err := strconv.ParseInt(l.value, 10, 64)
			if !digits.MatchString(l.value) || err != nil || length != "" && length != strconv.FormatInt(n, 10) {
				return false
			}
			length = strconv.FormatInt(n, 10)
		}
	}
	return count(lines, "host") < 2
}

func naiveRequest(lines []line) bool {
	m := asMap(lines)
	if !naiveFields(lines) || count(lines, ":status") > 0 || !token.MatchString(m[":method"]) {
		return false
	}
	authority, host := m[":authority"], m["host"]
	if authority != "" && !field.IsHost([]byte(authority)) || host != "" && !field.IsHost([]byte(host)) {
		return false
	}
	if count(lines, ":authority") > 0 && count(lines, "host") > 0 {
		port := map[bool]string{true: "443", false: "80"}[strings.EqualFold(m[":scheme"], "https")]
		normal := func(s string) string {
			s = regexp.MustCompile(`:(`+port+`)?$`).ReplaceAllString(s, "")
			return strings.ToLower(s)
		}
		if authority != host && (authority == "" || host == "" || normal(authority) != normal(host)) {
			return false
		}
	}
	connect := m[":method"] == "CONNECT"
	if count(lines, ":protocol") > 0 {
		if !connect || !token.MatchString(m[":protocol"]) || authority == "" {
			return false
		}
	} else if connect {
		return authority != "" && count(lines, ":scheme")+count(lines, ":path") == 0
	}
	return scheme.MatchString(m[":scheme"]) && (target.MatchString(m[":path"]) || m[":path"] == "*" && m[":method"] == "OPTIONS")
}

func naiveResponse(lines []line) bool {
	m := asMap(lines)
	for _, l := range lines {
		if strings.HasPrefix(l.name, ":") && l.name != ":status" {
			return false
		}
	}
	return naiveFields(lines) && statusRow.MatchString(m[":status"]) && m[":status"] != "101"
}
