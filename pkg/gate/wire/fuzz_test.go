package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// fuzzLimit keeps inputs below all size limits. The reference parser has none, and those
// of net/http differ.
const fuzzLimit = 8 << 10

// pieces divides an input into consecutive pieces and returns the positions at which they
// end. The parameter cuts has the lengths of the pieces; 0 counts as 1. After the last
// length, the first one is used again. If cuts is empty, the whole input is one piece.
func pieces(in string, cuts []byte) (ends []int) {
	for n, i := 0, 0; len(cuts) > 0 && n < len(in); i++ {
		if n += max(1, int(cuts[i%len(cuts)])); n < len(in) {
			ends = append(ends, n)
		}
	}
	return append(ends, len(in))
}

// usedRequest returns a request for reuse. It has parsed a head with many fields and was
// then reset. So a test that uses it detects old data that Reset has left.
func usedRequest() *Request {
	r := new(Request)
	read(r, "OPTIONS http://old:1?q HTTP/1.0\r\nHost: old\r\nK-Original-Host: old\r\nUpgrade: a, h2c\r\nTE: trailers\r\nConnection: keep-alive, close, upgrade, x\r\n"+
		"X-Forwarded-For: old\r\nX-Forwarded-Host: old\r\nX-Forwarded-Proto: old\r\nForwarded: old\r\nContent-Length: 77\r\n"+
		"K-Proxy-Request: activator\r\nK-Network-Probe: old\r\nK-Network-Hash: old\r\nUser-Agent: old\r\n\r\n", nil)
	r.Reset()
	return r
}

type message interface {
	Scan([]byte) (bool, error)
	decideAs(method string) error
}

func (r *Request) decideAs(string) error         { return r.Parse() }
func (r *Response) decideAs(method string) error { return r.Parse([]byte(method)) }

// read parses an input that arrives in pieces, as on a connection. Each Scan gets all
// bytes received so far, in a new buffer, because a growing buffer moves. The parameter
// cuts has the lengths of the pieces.
func read(m message, in string, cuts []byte) (parseResult, error) { return readAs(m, in, "", cuts) }

func readAs(m message, in, method string, cuts []byte) (parseResult, error) {
	for _, n := range pieces(in, cuts) {
		complete, err := m.Scan([]byte(in[:n]))
		if complete && err == nil {
			err = m.decideAs(method)
		}
		if err != nil {
			return rejected, err
		}
		if complete {
			return accepted, nil
		}
	}
	return incomplete, nil
}

// lines returns the fields of a head as refFields.
func (h *Head) lines() (all []refField) {
	for i := range h.Fields {
		f := &h.Fields[i]
		all = append(all, refField{asciiLower(string(h.name(f))), string(h.value(f)), string(h.Raw[f.start:f.end])})
	}
	return all
}

func wantSame[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

func wantSameFields(t *testing.T, got, want []refField) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("fields: got %q, want %q", got, want)
	}
}

func FuzzRequestHead(f *testing.F) {
	for i, s := range requestSeeds {
		f.Add(s, cutSeeds[i%len(cutSeeds)])
	}
	f.Fuzz(func(t *testing.T, in string, cuts []byte) {
		if len(in) > fuzzLimit {
			return
		}
		m, want := readReferenceRequest(in)
		for _, c := range [][]byte{nil, cuts, {1}} {
			r := usedRequest()
			v, err := read(r, in, c)
			if v != want {
				t.Fatalf("delivered by %v: %v (%v), want %v", c, v, err, want)
			}
			if v == accepted {
				sameRequest(t, r, &m)
			}
		}
		if want == accepted {
			netHTTPReadsRequest(t, in, &m)
		}
	})
}

func sameRequest(t *testing.T, r *Request, m *refMessage) {
	t.Helper()
	wantSame(t, "head length", len(r.Raw), m.size)
	wantSame(t, "method", string(r.Method), m.method)
	wantSame(t, "target", string(r.Target), m.target)
	wantSame(t, "authority", string(r.hosts.origin), m.authority)
	wantSame(t, "minor version", r.Minor, m.minor)
	wantSame(t, "framing", r.Body, m.kind)
	wantSame(t, "length", r.Length, m.length)
	wantSame(t, "persistence", r.KeepAlive(), m.persistent)
	wantSame(t, "upgrade", r.Upgrade, m.upgrade)
	wantSameFields(t, r.lines(), m.fields)
}

// netHTTPReadsRequest checks that net/http parses the message and gets the same result as
// the reference, m. net/http rejects some hosts and Trailer fields that the gate accepts.
// So these are first replaced by text of the same length that net/http accepts.
func netHTTPReadsRequest(t *testing.T, in string, m *refMessage) {
	t.Helper()
	head, sent, fields := in[:m.size], m.sent, m.fields
	if m.authority != "" {
		if _, err := url.Parse("http://" + m.authority); err != nil {
			// net/url rejects a host that is an IPvFuture or has percent-encoded ASCII.
			// Replace such a host by the same number of letters.
			plain := strings.Repeat("h", len(m.authority))
			sent = strings.Replace(sent, "//"+m.authority, "//"+plain, 1)
			head = strings.Replace(head, "//"+m.authority, "//"+plain, 1)
		}
	}
	head, fields = coverTrailer(head, m, fields)

	src := strings.NewReader(head + in[m.size:] + "GET /beyond HTTP/1.1\r\n\r\n")
	all := src.Len()
	br := bufio.NewReaderSize(src, 64<<10)
	req, err := http.ReadRequest(br)
	if err != nil {
		t.Fatalf("net/http rejects the message: %v", err)
	}
	wantSame(t, "net/http's head length", all-src.Len()-br.Buffered(), m.size)
	wantSame(t, "net/http's method", req.Method, m.method)
	wantSame(t, "net/http's target", req.RequestURI, sent)
	wantSame(t, "net/http's major version", req.ProtoMajor, 1)
	wantSame(t, "net/http's minor version", min(req.ProtoMinor, 1), m.minor)
	wantSame(t, "net/http's persistence", !req.Close, m.persistent)
	kind, length := netHTTPFraming(req.TransferEncoding, req.ContentLength, req.Body, NoBody)
	if m.kind == BodyLength && m.length == 0 {
		wantSame(t, "net/http's framing", kind, NoBody)
	} else {
		wantSame(t, "net/http's framing", kind, m.kind)
		wantSame(t, "net/http's length", length, m.length)
	}
	wantSameHeader(t, req.Header, fields, func(h http.Header) {
		h.Del("Host")
		if m.kind == BodyChunked {
			h.Del("Transfer-Encoding")
			h.Del("Trailer")
		}
	})
}

func netHTTPFraming(codings []string, length int64, body io.Reader, otherwise BodyKind) (BodyKind, int64) {
	switch {
	case body == http.NoBody:
		return NoBody, 0
	case slices.Equal(codings, []string{"chunked"}):
		return BodyChunked, 0
	case length >= 0:
		return BodyLength, length
	}
	return otherwise, 0
}

// coverTrailer renames Trailer fields that announce framing fields, because net/http
// rejects the message otherwise.
func coverTrailer(head string, m *refMessage, fields []refField) (string, []refField) {
	if m.kind != BodyChunked || !m.has("trailer", "transfer-encoding") && !m.has("trailer", "content-length") && !m.has("trailer", "trailer") {
		return head, fields
	}
	fields = slices.Clone(fields)
	for i, f := range fields {
		if f.name == "trailer" {
			renamed := "X-Trail" + f.line[len("trailer"):]
			head = strings.Replace(head, "\r\n"+f.line, "\r\n"+renamed, 1)
			fields[i] = refField{"x-trail", f.value, renamed}
		}
	}
	return head, fields
}

// wantSameHeader compares names and values. net/http preserves the order of the values of
// one name, but not the order of names.
func wantSameHeader(t *testing.T, got http.Header, fields []refField, change func(http.Header)) {
	t.Helper()
	want := make(http.Header)
	for _, f := range fields {
		want.Add(f.name, f.value)
	}
	if p := want["Pragma"]; len(p) > 0 && p[0] == "no-cache" && want["Cache-Control"] == nil {
		want.Set("Cache-Control", "no-cache") // net/http adds this field
	}
	change(want)
	if !maps.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("net/http's fields: got %q, want %q", got, want)
	}
}

var responseMethods = []string{"GET", "HEAD", "POST", "OPTIONS"}

func FuzzResponseHead(f *testing.F) {
	for i, s := range responseSeeds {
		f.Add(s, byte(i/3), cutSeeds[i%len(cutSeeds)])
	}
	f.Fuzz(func(t *testing.T, in string, method byte, cuts []byte) {
		if len(in) > fuzzLimit {
			return
		}
		asked := responseMethods[int(method)%len(responseMethods)]
		m, want := readReferenceResponse(in, asked)
		r := new(Response)
		for _, c := range [][]byte{nil, cuts, {1}} {
			r.Reset() // clear the state of the previous round
			v, err := readAs(r, in, asked, c)
			if v != want {
				t.Fatalf("delivered by %v: %v (%v), want %v", c, v, err, want)
			}
			if v == accepted {
				sameResponse(t, r, &m)
			}
		}
		// net/http rejects a Content-Length such as "5, 5", which the gate accepts.
		if want == accepted && !m.repeated {
			netHTTPReadsResponse(t, in, asked, &m)
		}
	})
}

func FuzzRepairedHead(f *testing.F) {
	for i, s := range append(repairSeeds, responseSeeds...) {
		f.Add(s, cutSeeds[i%len(cutSeeds)])
	}
	f.Fuzz(func(t *testing.T, in string, cuts []byte) {
		if len(in) > fuzzLimit {
			return
		}
		m, want := readReferenceResponse(in, "GET")
		clean, size := in[:m.size], m.size
		if v, _ := readAs(new(Response), in, "GET", nil); want == rejected && v == rejected {
			var rest string
			if clean, rest, want = repairReference(in); want == accepted {
				size = len(in) - len(rest)
				m, want = readReferenceResponse(clean, "GET")
			}
		}
		r := new(Response)
		for _, c := range [][]byte{nil, cuts, {1}} {
			r.Reset()
			v, err := rejected, error(nil)
			for _, n := range pieces(in, c) {
				var complete bool
				if complete, err = r.ScanResponse([]byte(in[:n])); complete && err == nil {
					err = r.Parse([]byte("GET"))
				}
				if v = incomplete; err != nil {
					v = rejected
				} else if complete {
					v = accepted
				}
				if v != incomplete {
					break
				}
			}
			if v != want && (want != incomplete || v != rejected) { // ScanResponse may reject a head earlier than the reference
				t.Fatalf("delivered by %v: %v (%v), want %v", c, v, err, want)
			}
			if v != accepted {
				continue
			}
			wantSame(t, "size", r.Size(), size)
			wantSame(t, "head", string(r.Raw), clean)
			sameResponse(t, r, &m)
		}
	})
}

func sameResponse(t *testing.T, r *Response, m *refMessage) {
	t.Helper()
	wantSame(t, "head length", len(r.Raw), m.size)
	wantSame(t, "status", r.Status, m.status)
	wantSame(t, "status line", "HTTP/1."+string(m.start[len("HTTP/1.")])+string(r.Raw[len("HTTP/1.1"):r.startEnd]), m.start)
	wantSame(t, "minor version", r.Minor, m.minor)
	wantSame(t, "framing", r.Body, m.kind)
	if m.kind == BodyLength {
		wantSame(t, "length", r.Length, m.length)
	}
	wantSame(t, "persistence", r.Reusable(), m.persistent)
	wantSameFields(t, r.lines(), m.fields)
}

func netHTTPReadsResponse(t *testing.T, in, method string, m *refMessage) {
	t.Helper()
	cover := *m
	if m.has("transfer-encoding", "chunked") {
		// net/http rejects some Trailer fields of a chunked response, even if the
		// response has no body. coverTrailer hides these fields from net/http, but only
		// if the kind of the body is BodyChunked.
		cover.kind = BodyChunked
	}
	head, fields := coverTrailer(in[:m.size], &cover, m.fields)
	src := strings.NewReader(head + in[m.size:] + "HTTP/1.1 200 beyond\r\n\r\n")
	all := src.Len()
	br := bufio.NewReaderSize(src, 64<<10)
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("net/http rejects the message: %v", err)
	}
	wantSame(t, "net/http's head length", all-src.Len()-br.Buffered(), m.size)
	wantSame(t, "net/http's status", res.StatusCode, m.status)
	wantSame(t, "net/http's minor version", min(res.ProtoMinor, 1), m.minor)
	kind, length := netHTTPFraming(res.TransferEncoding, res.ContentLength, res.Body, BodyUntilClose)
	if m.kind == BodyLength && m.length == 0 {
		wantSame(t, "net/http's framing", kind, NoBody)
	} else {
		wantSame(t, "net/http's framing", kind, m.kind)
		if m.kind == BodyLength {
			wantSame(t, "net/http's length", length, m.length)
		}
	}
	if m.kind != NoBody || len(m.values("transfer-encoding")) > 0 {
		// For a response without a body, net/http's ReadResponse may set Close although
		// the connection persists.
		wantSame(t, "net/http's persistence", !res.Close, m.persistent)
	}
	wantSameHeader(t, res.Header, fields, func(h http.Header) {
		if cover.kind == BodyChunked {
			h.Del("Transfer-Encoding")
			h.Del("Trailer")
		}
		if m.minor > 0 && m.has("connection", "close") {
			h.Del("Connection")
		}
	})
}

type decoded struct {
	parseResult parseResult
	payload     string
	trailers    string
	size        int
}

// decode passes an input to d in pieces, as Pump does. It puts the next piece into the
// buffer only after d has consumed the whole previous piece.
func decode(t *testing.T, d *Decoder, in string, cuts []byte) (got decoded) {
	t.Helper()
	buf := make([]byte, 0, len(in))
	at := 0
	for _, n := range pieces(in, cuts) {
		buf = append(buf[:0], in[at:n]...)
		for r := 0; r < len(buf); {
			data, used, err := d.Next(buf[r:])
			got.payload += string(data)
			r += used
			got.size += used
			switch {
			case err != nil:
				got.parseResult = rejected
				return got
			case d.Ended:
				got.parseResult, got.trailers = accepted, string(d.Trailer)
				return got
			case used == 0 || r > len(buf):
				t.Fatalf("used %d of %d bytes", used, len(buf)-r+used)
			}
		}
		at = n
	}
	return got
}

func FuzzChunkedBody(f *testing.F) {
	for i, s := range chunkedSeeds {
		f.Add(s, cutSeeds[i%len(cutSeeds)])
	}
	f.Fuzz(func(t *testing.T, in string, cuts []byte) {
		if len(in) > fuzzLimit {
			return
		}
		b, v := readReferenceChunked(in)
		want := decoded{parseResult: v, payload: b.payload}
		if v == accepted {
			want.size = b.size
			for _, f := range b.trailers {
				if !untimely(f.name) {
					want.trailers += f.line
				}
			}
		}
		var d Decoder
		for _, c := range [][]byte{nil, cuts, {1}} {
			d.Begin(BodyChunked, 0)
			got := decode(t, &d, in, c)
			if v != accepted {
				got.size = 0 // undefined for an invalid body
			}
			if got != want {
				t.Fatalf("delivered by %v: got %+v, want %+v", c, got, want)
			}
		}
		if v == accepted {
			netHTTPReadsChunked(t, in, &b)
		}
	})
}

// netHTTPReadsChunked checks that net/http finds the same payload, end and
// trailers.
func netHTTPReadsChunked(t *testing.T, in string, b *refBody) {
	t.Helper()
	if b.longest >= 4096 || b.excess > 16<<10 {
		return // net/http rejects such a long line or so many framing bytes
	}
	body := []byte(in)
	for _, i := range b.blanks {
		// net/http rejects white space before an extension: move it behind the semicolon.
		semicolon := i + bytes.IndexByte(body[i:], ';')
		body[i], body[semicolon] = body[semicolon], body[i]
	}
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	src := strings.NewReader(head + string(body) + "GET /beyond HTTP/1.1\r\n\r\n")
	all := src.Len()
	br := bufio.NewReaderSize(src, 64<<10)
	req, err := http.ReadRequest(br)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("net/http rejects the message: %v", err)
	}
	wantSame(t, "net/http's payload", string(payload), b.payload)
	wantSame(t, "net/http's end", all-src.Len()-br.Buffered()-len(head), b.size)
	want := make(http.Header)
	for _, f := range b.trailers {
		want.Add(f.name, f.value)
	}
	if !maps.EqualFunc(req.Trailer, want, slices.Equal[[]string]) {
		t.Errorf("net/http's trailers: got %q, want %q", req.Trailer, want)
	}
}

const fallbackHost = "127.0.0.1:8080"

var fuzzPeers = []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}

// FuzzRewrite parses an input and checks the message that the gate forwards for it. The
// input is a response if the lowest bit of flags is set, otherwise a request.
func FuzzRewrite(f *testing.F) {
	for i, s := range requestSeeds {
		f.Add(s, byte(i)<<1)
	}
	for i, s := range responseSeeds {
		f.Add(s, byte(i)<<1|1)
	}
	f.Fuzz(func(t *testing.T, in string, flags byte) {
		switch {
		case len(in) > fuzzLimit:
		case flags&1 == 0:
			rewriteRequest(t, in, fuzzPeers[flags>>1&1])
		default:
			rewriteResponse(t, in, responseMethods[flags>>1&3], int(flags>>3&1), flags>>4&1 == 1)
		}
	})
}

// referenceASCII percent-encodes the bytes above 0x7f of a target.
func referenceASCII(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func rewriteRequest(t *testing.T, in string, peer netip.Addr) {
	r := usedRequest()
	if v, _ := read(r, in, nil); v != accepted {
		return
	}
	m, v := readReferenceRequest(in)
	if v != accepted {
		t.Fatalf("%v by the reference", v)
	}
	out := string(r.AppendHead(nil, peer, []byte(fallbackHost)))
	m2, v := readReferenceRequest(out)
	if v != accepted || m2.size != len(out) {
		t.Fatalf("%v by the reference, %d of %d bytes: %q", v, m2.size, len(out), out)
	}
	wantSameOverHTTP2(t, &m2.refHead, ":method "+m.method+"\n:scheme http\n:path "+referenceASCII(m2.target)+"\n:authority "+m2.host+"\n",
		r.AppendHTTP2(nil, new(h2.Encoder), peer, []byte(fallbackHost), "http"))
	netHTTPReadsRequest(t, out, &m2)
	if v, err := read(usedRequest(), out, nil); v != accepted {
		t.Fatalf("the engine rejects its own head: %v", err)
	}

	wantSame(t, "start line", m2.start, m.method+" "+m.target+" HTTP/1.1")
	wantSame(t, "framing", m2.kind, m.kind)
	wantSame(t, "length", m2.length, m.length)
	host := m.host
	if host == "" {
		host = fallbackHost
	}
	wantValues(t, &m2.refHead, "host", host)
	wantValues(t, &m2.refHead, "x-forwarded-for", strings.Join(append(nonEmpty(m.values("x-forwarded-for")), peer.String()), ", "))
	if m.has("te", "trailers") {
		wantValues(t, &m2.refHead, "te", "trailers")
	} else {
		wantValues(t, &m2.refHead, "te")
	}
	if m.upgrade {
		wantValues(t, &m2.refHead, "connection", "Upgrade")
		var protocols []string
		for _, p := range m.elements("upgrade") {
			if asciiLower(p) != "h2c" {
				protocols = append(protocols, p)
			}
		}
		wantValues(t, &m2.refHead, "upgrade", strings.Join(protocols, ", "))
	} else {
		wantValues(t, &m2.refHead, "connection")
		wantValues(t, &m2.refHead, "upgrade")
	}

	rewritten := append([]string{"host", "x-forwarded-for", "k-original-host",
		"knative-serving-namespace", "knative-serving-revision"}, refHopByHop...)
	if m.minor == 0 {
		rewritten = append(rewritten, "expect")
	}
	if len(nonEmpty(m.values("forwarded"))) == 0 && len(nonEmpty(slices.Concat(m.values("x-forwarded-for"),
		firstOf(m.values("x-forwarded-proto")), firstOf(m.values("x-forwarded-host"))))) > 0 {
		// The gate generates Forwarded and removes empty Forwarded lines.
		rewritten = append(rewritten, "forwarded")
	}
	if slices.ContainsFunc(m.elements("trailer"), untimely) || m.listed("trailer") > 64 {
		// The gate removes the names of fields that are not allowed as trailers. If the
		// Trailer lines have more than 64 names together, it also removes the last lines.
		rewritten = append(rewritten, "trailer")
	}
	for _, f := range m.fields {
		if name := asciiLower(f.name); strings.HasPrefix(name, "k-gate-") {
			rewritten = append(rewritten, name)
			wantValues(t, &m2.refHead, name)
		}
	}
	wantTimelyTrailers(t, &m.refHead, &m2.refHead)
	for _, removed := range []string{"k-original-host", "knative-serving-namespace", "knative-serving-revision",
		"keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"} {
		wantValues(t, &m2.refHead, removed)
	}
	wantSameFields(t, except(&m2.refHead, rewritten, false), framedBy(except(&m.refHead, rewritten, true), m.length))
}

// wantSameOverHTTP2 checks that the gate forwards the same fields over HTTP/1 and HTTP/2,
// in the same order. The parameter sent is the head forwarded over HTTP/1, and block is
// the field block forwarded over HTTP/2. The block must have the pseudo-fields listed in
// pseudo, and then the fields of sent that HTTP/2 allows.
func wantSameOverHTTP2(t *testing.T, sent *refHead, pseudo string, block []byte) {
	t.Helper()
	d, h := h2.Decoder{MaxList: 64 * fuzzLimit}, new(h2.Head)
	if err := d.Decode(block, h); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i := range h.Fields {
		fmt.Fprintf(&got, "%s %s\n", h.NameOf(&h.Fields[i]), h.ValueOf(&h.Fields[i]))
	}
	want, request := pseudo, strings.HasPrefix(pseudo, ":method")
	for _, f := range sent.fields {
		switch f.name {
		case "connection", "transfer-encoding", "upgrade":
			continue
		case "host":
			if request {
				continue // :authority
			}
		case "sec-websocket-accept":
			if sent.has("connection", "upgrade") {
				continue
			}
		}
		want += f.name + " " + f.value + "\n"
	}
	wantSame(t, "fields over HTTP/2", got.String(), want)
}

// framedBy replaces all Content-Length lines by one, at the position of the first.
func framedBy(fields []refField, length int64) (framed []refField) {
	done := false
	for _, f := range fields {
		if f.name == "content-length" {
			if done {
				continue
			}
			done = true
			f.value = strconv.FormatInt(length, 10)
			f.line = f.line[:len(f.name)] + ": " + f.value + "\r\n"
		}
		framed = append(framed, f)
	}
	return framed
}

func rewriteResponse(t *testing.T, in, method string, clientMinor int, closes bool) {
	r := new(Response)
	if v, _ := readAs(r, in, method, nil); v != accepted {
		return
	}
	m, v := readReferenceResponse(in, method)
	if v != accepted {
		t.Fatalf("%v by the reference", v)
	}
	stream := r.Body == BodyChunked || r.Body == BodyUntilClose
	f := Framing{Chunked: stream && clientMinor > 0, Interim: r.Status < 200}
	f.Close = closes || stream && clientMinor == 0
	f.KeepAlive = clientMinor == 0
	out := string(r.AppendHead(nil, f, []byte("now")))

	m2, v := readReferenceResponse(out, method)
	if v != accepted || m2.size != len(out) {
		t.Fatalf("%v by the reference, %d of %d bytes: %q", v, m2.size, len(out), out)
	}
	status := r.Status
	if status == 101 {
		status = 200 // RFC 8441 section 5
	}
	wantSameOverHTTP2(t, &m2.refHead, fmt.Sprintf(":status %d\n", status), r.AppendHTTP2(nil, new(h2.Encoder), Framing{}, []byte("now")))
	netHTTPReadsResponse(t, out, method, &m2)
	if v, err := readAs(new(Response), out, method, nil); v != accepted {
		t.Fatalf("the engine rejects its own head: %v", err)
	}
	start := "HTTP/1.1" + m.start[len("HTTP/1.1"):]
	if len(start) == len("HTTP/1.1 200") {
		start += " "
	}
	wantSame(t, "start line", m2.start, start)
	kind := m.kind
	switch {
	case f.Chunked:
		kind = BodyChunked
	case stream:
		kind = BodyUntilClose
	}
	wantSame(t, "framing", m2.kind, kind)
	if kind == BodyLength {
		wantSame(t, "length", m2.length, m.length)
	}
	rewritten := []string{"k-gate-*"}
	for _, name := range refHopByHop {
		if name != "upgrade" || m.status != 101 {
			rewritten = append(rewritten, name)
		}
	}
	switch {
	case m.status < 200 || m.status == 204:
		rewritten = append(rewritten, "content-length")
		wantValues(t, &m2.refHead, "content-length")
	}
	if slices.ContainsFunc(m.elements("trailer"), untimely) || m.listed("trailer") > 64 {
		rewritten = append(rewritten, "trailer")
	}
	wantTimelyTrailers(t, &m.refHead, &m2.refHead)
	for _, removed := range []string{"keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "k-gate-*"} {
		wantValues(t, &m2.refHead, removed)
	}
	switch {
	case m.status == 101:
		wantValues(t, &m2.refHead, "connection", "Upgrade")
	case f.Interim:
		wantValues(t, &m2.refHead, "connection")
	case f.Close:
		wantValues(t, &m2.refHead, "connection", "close")
	case f.KeepAlive:
		wantValues(t, &m2.refHead, "connection", "keep-alive")
	default:
		wantValues(t, &m2.refHead, "connection")
	}
	before, after := framedBy(except(&m.refHead, rewritten, true), m.length), except(&m2.refHead, rewritten, false)
	if !f.Interim && !slices.ContainsFunc(before, func(f refField) bool { return f.name == "date" }) {
		before = append(before, refField{"date", "now", "Date: now\r\n"})
	}
	wantSameFields(t, after, before)
}

// wantValues checks all values of a field. A name may end in *.
func wantValues(t *testing.T, h *refHead, name string, want ...string) {
	t.Helper()
	var got []string
	for _, f := range h.fields {
		if among(f.name, []string{name}) {
			got = append(got, f.value)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

// except returns the fields of h, except those whose names are in the list names. If the
// parameter named is true, it also omits the fields that Connection removes.
func except(h *refHead, names []string, named bool) (rest []refField) {
	for _, f := range h.fields {
		switch {
		case among(f.name, names), named && f.name != "upgrade" && h.named(f.name):
		default:
			rest = append(rest, f)
		}
	}
	return rest
}

func untimely(name string) bool {
	name = asciiLower(name)
	return among(name, refUntimely) || trustedOnly(name)
}

// wantTimelyTrailers checks that Trailer announces exactly the names that are allowed in
// trailers.
func wantTimelyTrailers(t *testing.T, before, after *refHead) {
	t.Helper()
	var want []string
	if !before.named("trailer") {
		// The gate reads Trailer lines while they have at most 64 names together. It
		// drops all further Trailer lines. The variable parsed gets the lines that it
		// reads.
		parsed := refHead{}
		for _, f := range before.fields {
			if f.name == "trailer" {
				if parsed.fields = append(parsed.fields, f); parsed.listed("trailer") > 64 {
					parsed.fields = parsed.fields[:len(parsed.fields)-1]
					break
				}
			}
		}
		want = slices.DeleteFunc(parsed.elements("trailer"), untimely)
	}
	if got := after.elements("trailer"); !slices.Equal(got, want) {
		t.Errorf("Trailer: got %q, want %q", got, want)
	}
}

func nonEmpty(all []string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

func firstOf(all []string) []string { return all[:min(1, len(all))] }

func TestThePiecesOfAFuzzInputCoverItInOrder(t *testing.T) {
	for _, c := range cutSeeds {
		ends := pieces("0123456789", c)
		if !slices.IsSorted(ends) || ends[len(ends)-1] != 10 {
			t.Errorf("cuts %v: %v", c, ends)
		}
	}
}

func TestTheSeedsCoverEveryAction(t *testing.T) {
	count := map[string]int{}
	for _, s := range requestSeeds {
		_, v := readReferenceRequest(s)
		count[fmt.Sprint("request ", v)]++
	}
	for _, s := range responseSeeds {
		_, v := readReferenceResponse(s, "GET")
		count[fmt.Sprint("response ", v)]++
	}
	for _, s := range chunkedSeeds {
		_, v := readReferenceChunked(s)
		count[fmt.Sprint("chunked ", v)]++
	}
	for _, what := range []string{"request", "response", "chunked"} {
		for _, v := range []parseResult{incomplete, rejected, accepted} {
			if key := fmt.Sprint(what, " ", v); count[key] < 4 {
				t.Errorf("%s: %d seeds, want at least 4", key, count[key])
			}
		}
	}
}

// cutSeeds are values of cuts.
var cutSeeds = [][]byte{nil, {1}, {2}, {3, 1}, {7, 16, 1}, {64}, {15, 2}, {200, 1}}

const chromium = "Host: app.example.com\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\n" +
	"Sec-Fetch-Mode: navigate\r\nReferer: https://app.example.com/list?page=2\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Accept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n"

var requestSeeds = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /items/17?sort=name HTTP/1.1\r\n" + chromium + "\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nUpgrade: x\r\n\r\n",
	"GET / HTTP/1.5\r\nhOST:\ta.b:80 \t\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
	"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\nX: y\r\n\r\nhello",
	"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\ncontent-length: 9223372036854775807\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED \r\nTrailer: content-length, x\r\nTE: trailers, deflate\r\n\r\n0\r\n\r\n",
	"POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n",
	"PUT http://b.example:8080/x?y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET hTTps://b?q HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://b%41.example HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://[v1.x:y]:1/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET //a/./../%2F%00;x??y=%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\xc3\xa9\"<>^{}|\\` HTTP/1.1\r\nHost: a\r\nX: \xff\xfe\r\n\r\n",
	"GET / HTTP/1.1\r\nHost:\r\nK-Original-Host:\r\nK-Original-Host: b:1\r\nk-original-host: c\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1\r\nA: 1\r\nX-Forwarded-For: \r\nX-Forwarded-For: 10.0.0.2, ::1\r\nForwarded:\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: c\r\nForwarded: for=x\r\n\r\n",
	"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c, WebSocket, foo/2\r\nSec-WebSocket-Key: eA==\r\n\r\n\x81\x00",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Once, Host,K-Network-Probe ,content-type,, te\r\nX-Once: 1\r\nx-once: 2\r\nK-Network-Probe: queue\r\nContent-Type: a/b\r\n\r\n",
	"GET / HTTP/1.1\r\nConnection: Ho\u017ft, \u212a-Network-Hash\r\nHost: a\r\nK-Network-Hash: 1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\nProxy-Authorization: x\r\nKnative-Serving-Revision: r\r\nKnative-Serving-Tag: t\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\nCookie: b=2\r\nX-Empty:\r\nPragma: no-cache\r\nK-Gate-X: y\r\n\r\n",
	"GET /healthz HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.31\r\nK-Network-Probe: queue\r\nK-Proxy-Request: activator\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding, connection\r\nTransfer-Encoding: chunked\r\n\r\n",
	"!#$%&'*+-.^_`|~ / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09azAZ: \tx\ty \r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Host, X-Sum,te , Expires\r\nTrailer: content-type\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nConnection: trailer\r\nTransfer-Encoding: chunked\r\nTrailer: Host, X-Sum\r\n\r\n0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [fe80::1%25a~b%41]:80\r\nConnection: a,b,c,d,e,f,g,h,i,\u212a-Network-Hash,X-A\r\nX-a: 1\r\nK-Network-Hash: 1\r\n\r\n",
	"OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n",
	// rejected
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [fe80::1%25a!b]\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a%4\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nK-Original-Host: /\r\n\r\n",
	"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
	" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\tx HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://u:p@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"GET / http/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n",
	"GET / HTTP/1.1\r\nHost: a\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX\xc2\xa0: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chun\u212aed\r\n\r\n",
	"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
	// incomplete, or rejected before the end
	"",
	"G",
	"GET / HTTP/1.1\r",
	"GET / HTTP/1.1\r\nHost: a\r\nX",
	"GET / HTTP/1.1\r\nHost: a\r\nX: \xff",
	"GET / HTTP/1.1\r\nHost: a\r\n\r",
	"GET /\x01 HTTP/1.1\r\nHo",
	"(x\r\nHo",
	"\r\nGET",
	"GET / HTTP/1.1\r\nHost: a\r\n x",
	"GET / HTTP/1.1\r\nHost: a\r\nbad name",
	"GET / HTTP/1.1\r\nHost: a\r\nX\r",
	"GET / HTTP/1.1\r\nHost: a\r\nX: \rY",
}

var repairSeeds = []string{
	"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
	"HTTP/1.1 200 OK\r\nX-Name : v\r\nY\t: w\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX: a\r\n  b\r\n\tc\r\nY:\r\n z\r\n\r\n",
	"HTTP/1.0 200 OK\nX : a \n b\nContent-Length: 5\nContent-Length: 5\n\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\nX: a\r\nContent-Length: 5\n\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n Content-Length : 1\r\n\r\n",
	"HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n \r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\r\n\r\n",
	"HTTP/1.1 200 OK\n\r\n",
	"HTTP/1.1 200 OK\n\n",
	"\nHTTP/1.1 200 OK\n\n",
	"hello\n\n",
	"HTTP/1.1 200 OK\nX\x00: a\n\n",
}

var responseSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nServer: x\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nTrailer: X-Sum, Transfer-Encoding\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200  two \tblanks \xe9\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.9 299 Odd\r\nContent-Length: 007\r\n\r\n0123456",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nLink: </b>\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n\x81\x00",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade, Upgrade, X\r\nX: y\r\nContent-Length: 3\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\nETag: \"x\"\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nTrailer: trailer\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: close, X-Once, Set-Cookie\r\nX-Once: 1\r\nSet-Cookie: a\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nConnection: Content-Length, Date, close\r\nDate: then\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nTE: y\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nK-Gate-Outcome: served\r\nK-GATE-: x\r\nK-Network-Hash: h\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nPragma: no-cache\r\nX-Empty:\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n",
	// rejected
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 204 No\r\nContent-Length: x\r\n\r\n",
	"HTTP/1.1 099 Low\r\n\r\n",
	"HTTP/1.1 20 Short\r\n\r\n",
	"HTTP/1.1 2000 Long\r\n\r\n",
	"HTTP/1.1  200 OK\r\n\r\n",
	"HTTP/1.1\t200 OK\r\n\r\n",
	"HTTP/1.1 200\tOK\r\n\r\n",
	"HTTP/1.1 200 O\x00K\r\n\r\n",
	"HTTP/2 200 OK\r\n\r\n",
	"HTTP/2.0 200 OK\r\n\r\n",
	"http/1.1 200 OK\r\n\r\n",
	"ICY 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n\tb\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX y: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
	"<html>oops</html>\r\n\r\n",
	"\r\nHTTP/1.1 200 OK\r\n\r\n",
	// incomplete, or rejected before the end
	"",
	"HTTP/1.1 2",
	"HTTP/1.1 200 OK\r",
	"HTTP/1.1 200 OK\r\nX: y",
	"HTTP/1.1 200 OK\r\nX: y\r\n\r",
	"HTTP/1.1 200 OK\x7f\r\nX",
	"HTTP/1.1 200 OK\r\n\tX",
}

var chunkedSeeds = []string{
	"0\r\n\r\n",
	"5\r\nhello\r\n0\r\n\r\n",
	"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
	"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n0\r\n\r\n",
	"a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n",
	"000000000000005\r\nhello\r\n000000000000000\r\n\r\n",
	"5;ext\r\nhello\r\n0;last=1\r\n\r\n",
	"5;a=b;c=\"d;e\";;\r\nhello\r\n0;\r\n\r\n",
	"5 ; a\r\nhello\r\n0\t\t;\r\n\r\n",
	"5;\xff\t\r\nhello\r\n0\r\n\r\n",
	"2\r\n\r\n\r\n0\r\n\r\n",
	"7\r\n0\r\n\r\nab\r\n0\r\n\r\n",
	"0\r\nX-Sum: 1\r\n\r\n",
	"5\r\nhello\r\n0\r\nX-Sum: 1\r\nx-sum:\t2 \r\nExpires: 0\r\n\r\nrest",
	"0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\nX: y\r\n\r\n",
	"0\r\nK-Network-Hash: 5\r\nX-Forwarded-For: b\r\nAuthorization: c\r\nForwarded: d\r\nTrailer: e\r\nDate: f\r\nUser-Agent: g\r\n\r\n",
	"0\r\nKnative-Serving-Tag: 1\r\nConnection: close\r\nTE: x\r\nUpgrade: y\r\nExpect: z\r\nProxy-Authorization: q\r\nKeep-Alive: 1\r\n\r\n",
	"0\r\nX:\r\nY: \xff\r\n\r\n",
	"3;x\r\n\r\n;\r\n0\r\n\r\n",
	"3e8;x\r\n" + strings.Repeat("0\r\n\r\n", 200) + "\r\n0\r\n\r\n",
	// rejected
	"\r\n0\r\n\r\n",
	"5\nhello\r\n0\r\n\r\n",
	"5\r\nhello\n0\r\n\r\n",
	"5\r\nhello0\r\n\r\n",
	"5\r\nhelloX\r\n0\r\n\r\n",
	"5\r\nhello\r\n0\r\n\n",
	"5\r\nhello\r\n\r\n0\r\n\r\n",
	"5 \r\nhello\r\n0\r\n\r\n",
	" 5\r\nhello\r\n0\r\n\r\n",
	"+5\r\nhello\r\n0\r\n\r\n",
	"-1\r\nhello\r\n0\r\n\r\n",
	"0x5\r\nhello\r\n0\r\n\r\n",
	"5_0\r\nhello\r\n0\r\n\r\n",
	"g\r\nhello\r\n0\r\n\r\n",
	"1000000000000000\r\n",
	"ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
	"0000000000000000\r\n\r\n",
	"5;a\rb\r\nhello\r\n0\r\n\r\n",
	"5;a\nhello\r\n0\r\n\r\n",
	"5;a\x00\r\nhello\r\n0\r\n\r\n",
	"5\r\r\nhello\r\n0\r\n\r\n",
	"5 x\r\nhello\r\n0\r\n\r\n",
	"0\r\nbad name: x\r\n\r\n",
	"0\r\nX : x\r\n\r\n",
	"0\r\n X: x\r\n\r\n",
	"0\r\nX: x\r\n y\r\n\r\n",
	"0\r\nX: a\rb\r\n\r\n",
	"0\r\nX: a\x00\r\n\r\n",
	"0\r\nX: a\n\r\n",
	"0\r\nX\r\n\r\n",
	"0\r\n: x\r\n\r\n",
	// incomplete, or rejected before the end
	"",
	"5",
	"5\r",
	"5\r\nhel",
	"5\r\nhello\r",
	"fffffffffffffff\r\nx",
	"5;ext",
	"5 ",
	"0\r\n",
	"0\r\n\r",
	"0\r\nX: y\r",
	"0\r\nX: y\r\n",
	"0\r\nbad name",
	"0\r\n x",
	"0\r\nX\r",
	"0\r\nX: \rz",
}
