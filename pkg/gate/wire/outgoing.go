package wire

import (
	"net/netip"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// A part is what the forwarded head has in the position of a received field. Reading
// the head decides it (Request.readField, Response.readFields); the writers of both
// protocols, appendHTTP1 and appendHTTP2, only follow.
type part uint8

// The parts. Generated lines take the position of the first received field that they
// replace; those that replace none follow the received fields, in this order.
const (
	unchanged   part = iota
	notHTTP2         // unchanged over HTTP/1, dropped over HTTP/2
	notExtended      // unchanged, but dropped in extended CONNECT (RFC 8441)
	trailerLine      // a Trailer without the fields that must not trail
	dropped

	hostLine
	forwardedForLine
	forwardedLine
	traceContextLines
	dateLine
	framingLine // delimits the body
	teLine
	requestStartLine
	serverTimingLine
	loadReportLine
	upgradeLines  // of a request: Connection and Upgrade
	switchLine    // of a 101: Connection
	closeLine     // of another response: Connection
	keepAliveLine // likewise
	partCount
)

// hpackNames are the parts of one line with a name in a table of HPACK.
var hpackNames = [partCount]h2.Name{forwardedForLine: h2.NameForwardedFor, dateLine: h2.NameDate, framingLine: h2.NameContentLength,
	teLine: h2.NameTE, trailerLine: h2.NameTrailer}

// parts is a set of generated lines.
type parts uint32

func (s *parts) add(p part, wanted bool) {
	if wanted {
		*s |= 1 << p
	}
}

// take removes p from the set, and reports whether it was there.
func (s *parts) take(p part) bool {
	was := *s
	*s &^= 1 << p
	return *s != was
}

// outgoing is a message on its way out, with the content of its generated lines.
type outgoing struct {
	*Head
	request  *Request // nil: the message is a response
	chunked  bool     // Transfer-Encoding delimits the body, not Content-Length
	extended bool     // of extended CONNECT
	length   int64
	peer     netip.Addr // the client, of a request
	timing   []byte     // value of Server-Timing, of a response; nil = none is added
	load     []byte     // line of the load report, of a response; nil = none is added
	fallback []byte     // value of a Host, in a response of a Date, that is missing
}

// generated returns the lines that the gate generates for a request.
func (r *Request) generated(http2 bool) (lines parts) {
	lines = 1 << forwardedForLine
	lines.add(forwardedLine, r.hops.makeForwarded())
	lines.add(traceContextLines, len(r.traceLines()) > 0)
	lines.add(teLine, r.teTrailers)
	lines.add(requestStartLine, r.start() != 0)
	if http2 { // :authority, END_STREAM and :protocol say the rest
		lines.add(framingLine, r.Body == BodyLength && r.Protocol() == nil)
		return lines
	}
	lines.add(hostLine, r.hosts.override() != nil || len(r.hosts.sent) == 0)
	lines.add(framingLine, r.Body != NoBody)
	lines.add(upgradeLines, r.Upgrade)
	return lines
}

// Framing says how a client gets a response. The first three are for HTTP/1.
type Framing struct {
	Chunked   bool // Transfer-Encoding: chunked
	Close     bool // the connection ends with it
	KeepAlive bool // say so to an HTTP/1.0 client
	Interim   bool

	Timing []byte // value of Server-Timing; nil = none is added
	Load   []byte // line with the load report, which replaces received ones; nil = none is added
}

// generated returns the lines that the gate generates for a response.
func (r *Response) generated(http2 bool, f Framing) (lines parts) {
	lines.add(framingLine, r.hasLength || !http2 && (f.Chunked || r.addLength))
	if f.Interim {
		lines.add(switchLine, r.Status == 101 && !http2)
		return lines
	}
	lines.add(dateLine, !r.hasDate)
	lines.add(serverTimingLine, f.Timing != nil)
	lines.add(loadReportLine, f.Load != nil)
	lines.add(closeLine, f.Close)
	lines.add(keepAliveLine, f.KeepAlive && !f.Close)
	return lines
}

// generate appends a part as lines of HTTP/1, each with its CRLF. f is the received
// field that it replaces, or nil.
func (o *outgoing) generate(dst []byte, p part, f *Field) []byte {
	switch p {
	case hostLine:
		return append(append(append(dst, "Host: "...), o.request.FinalHost(o.fallback)...), "\r\n"...)
	case forwardedForLine:
		return o.request.hops.appendFor(dst, o.Head, o.peer)
	case forwardedLine:
		return o.request.hops.appendForwarded(dst, o.Head)
	case traceContextLines:
		return append(dst, o.request.traceLines()...)
	case dateLine:
		return append(append(append(dst, "Date: "...), o.fallback...), "\r\n"...)
	case framingLine:
		return o.appendFraming(dst, f)
	case teLine:
		return append(dst, "TE: trailers\r\n"...)
	case requestStartLine:
		return append(strconv.AppendInt(append(dst, "X-Request-Start: t="...), o.request.start(), 10), "\r\n"...)
	case serverTimingLine:
		return append(append(append(dst, "Server-Timing: "...), o.timing...), "\r\n"...)
	case loadReportLine:
		return append(dst, o.load...)
	case upgradeLines:
		return o.appendUpgrade(dst)
	case switchLine:
		return append(dst, "Connection: Upgrade\r\n"...)
	case closeLine:
		return append(dst, "Connection: close\r\n"...)
	case keepAliveLine:
		return append(dst, "Connection: keep-alive\r\n"...)
	case trailerLine:
		return appendTrailer(dst, o.value(f))
	}
	return dst
}

// appendFraming appends the field that delimits the body. A Content-Length keeps the
// case of the received name.
func (o *outgoing) appendFraming(dst []byte, received *Field) []byte {
	switch {
	case o.chunked:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	case received != nil && received.kind == field.ContentLength:
		dst = append(dst, o.name(received)...)
	default:
		dst = append(dst, "Content-Length"...)
	}
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, o.length, 10)
	return append(dst, "\r\n"...)
}

// appendUpgrade offers the protocols that are forwarded.
func (h *Head) appendUpgrade(dst []byte) []byte {
	dst = append(dst, "Connection: Upgrade\r\nUpgrade: "...)
	sep := ""
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.kind != field.Upgrade {
			continue
		}
		eachOption(h.value(f), func(t []byte) bool {
			if !field.EqualFold(t, "h2c") {
				dst = append(append(dst, sep...), t...)
				sep = ", "
			}
			return true
		})
	}
	return append(dst, "\r\n"...)
}
