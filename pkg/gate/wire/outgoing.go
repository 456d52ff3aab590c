package wire

import (
	"net/netip"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// part is what the forwarded head contains in place of a received field. It is chosen
// when the head is read. The writers appendHTTP1 and appendHTTP2 only apply it.
type part uint8

// The parts. hostLine and the parts after it are lines that the gate generates. A
// generated line takes the place of the first received field that it replaces. Generated
// lines that replace no field are appended to the head in the order of these constants.
const (
	unchanged   part = iota
	notHTTP2         // unchanged over HTTP/1, dropped over HTTP/2
	notExtended      // dropped in extended CONNECT (RFC 8441), otherwise unchanged
	trailerLine      // the Trailer field, from which forbidden names are removed
	dropped

	hostLine
	forwardedForLine
	forwardedLine
	traceContextLines
	dateLine
	framingLine // the field that delimits the body
	teLine
	requestStartLine
	serverTimingLine
	loadReportLine
	upgradeLines  // Connection and Upgrade of a request
	switchLine    // Connection of a 101
	closeLine     // Connection: close in a response that is not a 101
	keepAliveLine // Connection: keep-alive in a response that is not a 101
	partCount
)

// hpackNames maps a part to the name of its field, so that the encoder need not look up
// the name. The value is 0 if the part has several lines or is not used in HTTP/2, or if
// the name is not a known h2.Name.
var hpackNames = [partCount]h2.Name{forwardedForLine: h2.NameForwardedFor, dateLine: h2.NameDate, framingLine: h2.NameContentLength,
	teLine: h2.NameTE, trailerLine: h2.NameTrailer}

// parts is a set of generated lines.
type parts uint32

func (s *parts) add(p part, wanted bool) {
	if wanted {
		*s |= 1 << p
	}
}

// take removes p from the set and reports whether it was there.
func (s *parts) take(p part) bool {
	was := *s
	*s &^= 1 << p
	return *s != was
}

// outgoing is a message to be sent, with the contents of its generated lines.
type outgoing struct {
	*Head
	request  *Request // nil = the message is a response
	chunked  bool     // Transfer-Encoding delimits the body instead of Content-Length
	extended bool     // the request is an extended CONNECT
	length   int64
	peer     netip.Addr // client of a request
	timing   []byte     // value of Server-Timing to add to a response; nil = none
	load     []byte     // line with the load report to add to a response; nil = none
	fallback []byte     // Host if a request has none, Date if a response has none
}

func (r *Request) generated(http2 bool) (lines parts) {
	lines = 1 << forwardedForLine
	lines.add(forwardedLine, r.hops.makeForwarded())
	lines.add(traceContextLines, len(r.traceLines()) > 0)
	lines.add(teLine, r.teTrailers)
	lines.add(requestStartLine, r.start() != 0)
	if http2 {
		// HTTP/2 uses :authority instead of Host, END_STREAM instead of
		// Transfer-Encoding, and :protocol instead of Upgrade.
		lines.add(framingLine, r.Body == BodyLength && r.Protocol() == nil)
		return lines
	}
	lines.add(hostLine, r.hosts.override() != nil || len(r.hosts.sent) == 0)
	lines.add(framingLine, r.Body != NoBody)
	lines.add(upgradeLines, r.Upgrade)
	return lines
}

// Framing determines how a response is sent to a client. Chunked, Close and KeepAlive
// apply to HTTP/1.
type Framing struct {
	Chunked   bool // the body has Transfer-Encoding: chunked
	Close     bool // the connection ends after the response
	KeepAlive bool // tell an HTTP/1.0 client that the connection stays open
	Interim   bool

	Timing []byte // value of Server-Timing; nil = none is added
	Load   []byte // line with the load report, which replaces received ones; nil = none is added
}

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

// generate appends a part as HTTP/1 lines with their CRLF. f is the received field in
// this place; nil = none.
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

// appendFraming appends the field that delimits the body. Content-Length keeps the case
// of the received name.
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

// appendUpgrade appends Connection and Upgrade with the protocols that may be forwarded.
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
