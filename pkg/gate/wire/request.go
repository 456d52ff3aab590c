package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// BodyKind is how the end of a body is found (RFC 9112 section 6.3).
type BodyKind uint8

const (
	NoBody BodyKind = iota
	BodyLength
	BodyChunked
	BodyUntilClose
)

// Request is a request head, read and decided upon. Slices point into the
// connection's buffer.
type Request struct {
	Head
	Method          []byte
	Target          []byte // as it goes on
	Minor           int
	Length          int64
	Conn            Connection
	Body            BodyKind
	Expect          bool // 100-continue
	Upgrade         bool // asks for a protocol that may go on
	teTrailers      bool // TE names trailers
	Proxied         bool // came through the activator
	proxySeen       bool
	Asterisk        bool        // OPTIONS *
	HTTP2           bool        // came over HTTP/2
	traced          bool        // some field of trace is there
	hasTrailerField bool        // the head has a Trailer field
	hasRare         bool        // some field of rare is there
	rare            *rareFields // nil: no request has had them yet

	hosts     hosts
	hops      hops
	userAgent []byte
}

// rareFields are what few requests say. A Request that has had room for them keeps
// it for those that follow.
type rareFields struct {
	trace                     gate.TraceFields
	networkProbe, networkHash []byte
	routeTag, defaultRoute    []byte
	hasDefaultRoute           bool
	protocol                  []byte
	traceLines                []byte // field lines that replace those of field.Trace; nil = they go on
	start                     int64  // X-Request-Start, in µs since 1970; 0 = none is added
}

// ensureRare is room for fields that are rare.
func (r *Request) ensureRare() *rareFields {
	if r.rare == nil {
		r.rare = new(rareFields)
	}
	r.hasRare = true
	return r.rare
}

// Protocol is that of extended CONNECT, which r then shows as an upgrade (RFC
// 8441); nil = r is none.
func (r *Request) Protocol() []byte {
	if !r.hasRare {
		return nil
	}
	return r.rare.protocol
}

// ExtendedConnect reports whether the client sent extended CONNECT. Extend does
// not change that.
func (r *Request) ExtendedConnect() bool { return r.HTTP2 && r.Protocol() != nil }

// UndoExtend undoes Extend.
func (r *Request) UndoExtend() {
	if r.hasRare {
		r.rare.protocol = nil
	}
}

// traceLines are what ReplaceTrace was given.
func (r *Request) traceLines() []byte {
	if !r.hasRare {
		return nil
	}
	return r.rare.traceLines
}

func (r *Request) Reset() {
	h, rare := r.Head, r.rare
	h.reset()
	if r.hasRare {
		*rare = rareFields{}
	}
	*r = Request{Head: h, rare: rare}
}

// Probe is what tells probes from traffic.
func (r *Request) Probe() gate.ProbeHeaders {
	h := gate.ProbeHeaders{UserAgent: r.userAgent}
	if r.hasRare {
		h.NetworkProbe, h.NetworkHash = r.rare.networkProbe, r.rare.networkHash
	}
	return h
}

// Parse reads the complete head: what it asks for, how it is framed, and
// whether two parsers could disagree about it.
func (r *Request) Parse() error {
	if err := r.startLine(); err != nil {
		return err
	}
	if err := r.readFields(); err != nil {
		return err
	}
	ok := false
	if r.Conn, ok = r.readConnection(); !ok {
		return ErrMalformed
	}
	r.Upgrade = r.Upgrade && r.Conn.Upgrade && r.Minor > 0
	if string(r.Method) == "CONNECT" {
		return ErrMethod
	}
	return nil
}

// startLine reads method, target and version (RFC 9112 section 3): single
// spaces, nothing around.
func (r *Request) startLine() error {
	line := r.Raw[:r.startEnd]
	m := 0
	for m < len(line) && field.IsToken(line[m]) {
		m++
	}
	if m == 0 || m == len(line) || line[m] != ' ' {
		return ErrMalformed
	}
	r.Method = line[:m]
	rest := line[m+1:]
	v := bytes.LastIndexByte(rest, ' ')
	if v < 1 {
		return ErrMalformed
	}
	minor, err := readVersion(rest[v+1:])
	if err != nil {
		return err
	}
	r.Minor = minor
	return r.readTarget(rest[:v])
}

// readVersion takes HTTP/1.x; a minor version above 1 is read as 1.
func readVersion(v []byte) (int, error) {
	if len(v) != 8 || string(v[:5]) != "HTTP/" || v[6] != '.' || !field.IsDigit(v[5]) || !field.IsDigit(v[7]) {
		return 0, ErrMalformed
	}
	switch {
	case v[5] != '1':
		return 0, ErrVersion
	case v[7] == '0':
		return 0, nil
	}
	return 1, nil
}

// counts are what a head may have once, or up to maxOptions times.
type counts struct{ lengths, codings, listed, announced int }

func (r *Request) readFields() error {
	var n counts
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind == field.Other {
			continue
		}
		if err := r.readField(f, &n); err != nil {
			return err
		}
	}
	switch {
	case n.codings > 1 || n.codings > 0 && (n.lengths > 0 || r.Minor == 0):
		return ErrMalformed // RFC 9112 sections 6.1 and 6.3: not to be repaired
	case r.hosts.numFields == 0 && r.Minor > 0:
		return ErrMalformed
	case n.codings == 1:
		r.Body = BodyChunked
	}
	r.Expect = r.Expect && r.HasBody()
	if r.hops.makeForwarded() {
		r.replace(field.Forwarded, dropped) // all are empty
	}
	if r.hosts.override() != nil {
		r.replace(field.Host, hostLine)
	}
	return nil
}

// HasBody reports whether a body follows the head. A Content-Length of 0 means no
// body.
func (r *Request) HasBody() bool {
	return r.Body != NoBody && (r.Body != BodyLength || r.Length > 0)
}

// readField reads a field that frames the message, routes it or belongs to the
// connection.
func (r *Request) readField(f *Field, n *counts) error {
	v := r.value(f)
	switch f.kind {
	case field.Host:
		f.out = notHTTP2
		if len(v) == 0 {
			f.out = hostLine
		}
		return r.hosts.read(v)
	case field.OriginalHost:
		f.out = dropped
		return r.hosts.readOriginal(v)
	case field.ContentLength:
		length, ok := field.ReadLength(v)
		if n.lengths++; n.lengths > 1 || !ok {
			return ErrMalformed
		}
		r.Body, r.Length, f.out = BodyLength, length, framingLine
	case field.TransferEncoding:
		f.out = framingLine
		n.codings++
		return readCoding(v)
	case field.Connection, field.HopByHop, field.RevisionRouting, field.Gate:
		f.out = dropped
	case field.TE:
		f.out = dropped
		if !n.countList(v) {
			return ErrMalformed
		}
		eachOption(v, func(t []byte) bool { r.teTrailers = r.teTrailers || field.EqualFold(t, "trailers"); return true })
	case field.Upgrade:
		f.out = dropped
		if !n.countList(v) {
			return ErrMalformed
		}
		eachOption(v, func(t []byte) bool { r.Upgrade = r.Upgrade || !field.EqualFold(t, "h2c"); return true })
	case field.WebSocketKey:
		f.out = notExtended
	case field.Expect:
		f.out = notExtended
		switch {
		case r.Minor == 0:
			f.out = dropped // RFC 9110 section 10.1.1
		case field.EqualFold(v, "100-continue"):
			r.Expect = true
		case len(v) > 0:
			return ErrExpectation
		}
	case field.Trailer:
		r.hasTrailerField = true
		n.announced += countElements(v)
		f.announce(v, n.announced)
	default:
		r.noteField(f, v)
	}
	return nil
}

// countList reports whether a list is short enough to be walked.
func (n *counts) countList(v []byte) bool {
	n.listed += countElements(v)
	return n.listed <= maxOptions
}

// noteField notes a field that says something of the request.
func (r *Request) noteField(f *Field, v []byte) {
	switch f.kind {
	case field.UserAgent:
		setFirst(&r.userAgent, v)
	case field.NetworkProbe:
		setFirst(&r.ensureRare().networkProbe, v)
	case field.NetworkHash:
		setFirst(&r.ensureRare().networkHash, v)
	case field.ProxyRequest:
		if !r.proxySeen {
			r.proxySeen, r.Proxied = true, string(v) == "activator"
		}
	case field.ServingTag:
		setFirst(&r.ensureRare().routeTag, v)
	case field.DefaultRoute:
		setFirst(&r.ensureRare().defaultRoute, v)
		r.rare.hasDefaultRoute = true
	case field.Trace, field.TraceState:
		r.ensureRare().trace.Note(r.name(f), v)
		r.traced = true
	case field.ForwardedFor:
		f.out = forwardedForLine
		if len(v) > 0 {
			r.hops.numFor++
		}
	case field.ForwardedProto:
		setFirst(&r.hops.proto, v)
	case field.ForwardedHost:
		setFirst(&r.hops.host, v)
	case field.Forwarded:
		r.hops.forwarded = r.hops.forwarded || len(v) > 0
	}
}

// replace puts p in the position of the fields of a kind.
func (r *Request) replace(kind field.Kind, p part) {
	for i := range r.Fields {
		if r.Fields[i].kind == kind {
			r.Fields[i].out = p
		}
	}
}

// ReplaceTrace sends lines to the container in the place of the trace context
// that came.
func (r *Request) ReplaceTrace(lines []byte) {
	r.ensureRare().traceLines = lines
	r.replace(field.Trace, dropped)
}

// SetStart adds X-Request-Start with an instant in µs since 1970. A received field of
// that name is kept if keep is true, and replaced otherwise.
func (r *Request) SetStart(micros int64, keep bool) {
	for i := range r.Fields {
		f := &r.Fields[i]
		if !field.EqualFold(r.name(f), "x-request-start") {
			continue
		}
		if keep {
			return
		}
		f.out = dropped
	}
	r.ensureRare().start = micros
}

// start is what SetStart was given.
func (r *Request) start() int64 {
	if !r.hasRare {
		return 0
	}
	return r.rare.start
}

// Distrust forgets what a client that is not trusted says of itself and of
// others: it was not proxied, it has no route tag, and its fields that only
// trusted sources may send are not forwarded.
func (r *Request) Distrust() {
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case f.kind == field.Host && r.hosts.origin == nil && f.valueStart < f.valueEnd:
			f.out = notHTTP2
		case f.out < dropped && field.IsTrustedOnly(r.name(f)):
			f.out = dropped
		}
	}
	r.Proxied, r.hops = false, hops{}
	if r.hasRare {
		r.rare.routeTag, r.rare.defaultRoute, r.rare.hasDefaultRoute = nil, nil, false
	}
	r.hosts.untrusted = true
}

// Describe fills in what an observer sees of the head.
func (r *Request) Describe(x *gate.Record, defaultHost []byte) {
	switch {
	case r.HTTP2:
		x.Protocol = "HTTP/2.0"
	case r.Minor == 0:
		x.Protocol = "HTTP/1.0"
	default:
		x.Protocol = "HTTP/1.1"
	}
	x.Method, x.Target, x.Host = r.Method, r.Target, r.FinalHost(defaultHost)
	x.UserAgent, x.Fields, x.Proxied, x.Upgrade = r.userAgent, r, r.Proxied, r.Upgrade
	if r.hasRare {
		x.RouteTag, x.DefaultRoute, x.HasDefaultRoute = r.rare.routeTag, r.rare.defaultRoute, r.rare.hasDefaultRoute
	}
	if r.traced {
		x.Trace = &r.rare.trace
	}
}

// FinalHost is the Host that the container sees.
func (r *Request) FinalHost(defaultHost []byte) []byte { return r.hosts.final(defaultHost) }

func setFirst(dst *[]byte, v []byte) {
	if *dst == nil {
		*dst = v
	}
}

// readCoding takes `chunked` alone. Other codings are unknown here; a list
// that repeats chunked, or is empty, is malformed.
func readCoding(v []byte) error {
	switch {
	case field.EqualFold(v, "chunked"):
		return nil
	case countElements(v) > maxOptions:
		return ErrMalformed
	}
	unknown := false
	eachOption(v, func(t []byte) bool {
		if !field.IsName(t) {
			unknown = false
			return false
		}
		unknown = unknown || !field.EqualFold(t, "chunked")
		return true
	})
	if unknown {
		return ErrCoding
	}
	return ErrMalformed
}

// KeepAlive reports whether the client means to go on (RFC 9112 section 9.3).
func (r *Request) KeepAlive() bool {
	if r.Minor == 0 {
		return r.Conn.KeepAlive && !r.Conn.Close
	}
	return !r.Conn.Close
}

// Idempotent reports whether the method allows to send the request again (RFC
// 9110 section 9.2.2).
func (r *Request) Idempotent() bool {
	switch string(r.Method) {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}
