package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// BodyKind tells how a body is delimited (RFC 9112 section 6.3).
type BodyKind uint8

const (
	NoBody BodyKind = iota
	BodyLength
	BodyChunked
	BodyUntilClose
)

// Request is a parsed request head. Its slices refer to the connection's buffer.
type Request struct {
	Head
	Method          []byte
	Target          []byte // target as forwarded
	Minor           int
	Length          int64
	Conn            Connection
	Body            BodyKind
	Expect          bool // 100-continue
	Upgrade         bool // the client offers a protocol that may be forwarded
	teTrailers      bool // TE contains trailers
	Proxied         bool // forwarded by the activator
	proxySeen       bool
	Asterisk        bool        // OPTIONS *
	HTTP2           bool        // received over HTTP/2
	traced          bool        // rare.trace is not empty
	hasTrailerField bool        // the head has a Trailer field
	hasRare         bool        // some field of rare is set
	rare            *rareFields // nil = never used

	hosts     hosts
	hops      hops
	userAgent []byte
}

// rareFields holds fields that few requests have. It is allocated on first use and
// reused.
type rareFields struct {
	trace                     gate.TraceFields
	networkProbe, networkHash []byte
	routeTag, defaultRoute    []byte
	hasDefaultRoute           bool
	protocol                  []byte
	traceLines                []byte // lines that replace the trace context; nil = forward it unchanged
	start                     int64  // X-Request-Start in µs since 1970; 0 = not added
	loadFormat                orca.Format
	loadReport                LoadReport
}

func (r *Request) ensureRare() *rareFields {
	if r.rare == nil {
		r.rare = new(rareFields)
	}
	r.hasRare = true
	return r.rare
}

// Protocol returns :protocol if r was received, or will be sent, as an extended CONNECT
// (RFC 8441). The other fields of r then describe the equivalent HTTP/1 upgrade. For all
// other requests, Protocol returns nil.
func (r *Request) Protocol() []byte {
	if !r.hasRare {
		return nil
	}
	return r.rare.protocol
}

// ExtendedConnect reports whether r was received as an extended CONNECT.
func (r *Request) ExtendedConnect() bool { return r.HTTP2 && r.Protocol() != nil }

// UndoExtend undoes Extend.
func (r *Request) UndoExtend() {
	if r.hasRare {
		r.rare.protocol = nil
	}
}

func (r *Request) traceLines() []byte {
	if !r.hasRare {
		return nil
	}
	return r.rare.traceLines
}

// Reset empties r and keeps its memory.
func (r *Request) Reset() {
	h, rare := r.Head, r.rare
	h.reset()
	if r.hasRare {
		*rare = rareFields{}
	}
	*r = Request{Head: h, rare: rare}
}

// Probe returns the fields by which probes are recognized.
func (r *Request) Probe() gate.ProbeHeaders {
	h := gate.ProbeHeaders{UserAgent: r.userAgent}
	if r.hasRare {
		h.NetworkProbe, h.NetworkHash = r.rare.networkProbe, r.rare.networkHash
	}
	return h
}

// Parse parses the complete head and its framing. It rejects a head that two parsers
// could read differently.
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

// startLine parses method, target and version (RFC 9112 section 3), separated by single
// spaces.
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

// readVersion parses HTTP/1.x and returns the minor version, at most 1.
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

// counts holds four numbers of a request head: Content-Length fields, Transfer-Encoding
// fields, elements of the lists in TE and Upgrade, and names in Trailer fields.
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
		// Transfer-Encoding must not be repeated. It must not occur together with
		// Content-Length, or in HTTP/1.0 (RFC 9112 sections 6.1 and 6.3).
		return ErrMalformed
	case r.hosts.numFields == 0 && r.Minor > 0:
		return ErrMalformed
	case n.codings == 1:
		r.Body = BodyChunked
	}
	r.Expect = r.Expect && r.HasBody()
	if r.hops.makeForwarded() {
		// If Forwarded fields were received, all of them are empty. Drop them. The gate
		// adds a Forwarded line that it generates from the X-Forwarded fields.
		r.replace(field.Forwarded, dropped)
	}
	if r.hosts.override() != nil {
		r.replace(field.Host, hostLine)
	}
	return nil
}

// HasBody reports whether a body follows the head. It is false for a Content-Length of 0.
func (r *Request) HasBody() bool {
	return r.Body != NoBody && (r.Body != BodyLength || r.Length > 0)
}

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

// countList adds the number of elements of the list v to n.listed. It returns false if
// n.listed is then more than maxOptions.
func (n *counts) countList(v []byte) bool {
	n.listed += countElements(v)
	return n.listed <= maxOptions
}

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
	case field.LoadFormat:
		if m := r.ensureRare(); m.loadFormat == orca.None {
			m.loadFormat = orca.ParseFormat(v)
		}
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

// replace removes all received fields of a kind from the forwarded head. If p is a
// generated line, this line takes the place of the first of these fields.
func (r *Request) replace(kind field.Kind, p part) {
	for i := range r.Fields {
		if r.Fields[i].kind == kind {
			r.Fields[i].out = p
		}
	}
}

// ReplaceTrace replaces the received trace context fields by lines.
func (r *Request) ReplaceTrace(lines []byte) {
	r.ensureRare().traceLines = lines
	r.replace(field.Trace, dropped)
}

// SetStart adds X-Request-Start, unless a received one is forwarded. micros is in µs
// since 1970. Call it after Distrust.
func (r *Request) SetStart(micros int64) {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.out != dropped && field.EqualFold(r.name(f), "x-request-start") {
			return
		}
	}
	r.ensureRare().start = micros
}

func (r *Request) start() int64 {
	if !r.hasRare {
		return 0
	}
	return r.rare.start
}

// Distrust removes the information that the gate accepts only from trusted sources. It
// clears Proxied, the route tag and the load report format, and ignores K-Original-Host.
// The fields for which field.IsTrustedOnly is true are not forwarded.
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
		r.rare.loadFormat = orca.None
	}
	r.hosts.untrusted = true
}

// Describe sets the fields of x from the head.
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

// FinalHost returns the Host sent to the container.
func (r *Request) FinalHost(defaultHost []byte) []byte { return r.hosts.final(defaultHost) }

func setFirst(dst *[]byte, v []byte) {
	if *dst == nil {
		*dst = v
	}
}

// readCoding accepts only `chunked`. Other codings are unknown; an empty list and a
// repeated chunked are malformed.
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

// KeepAlive reports whether the client allows the connection to persist (RFC 9112 section
// 9.3).
func (r *Request) KeepAlive() bool {
	if r.Minor == 0 {
		return r.Conn.KeepAlive && !r.Conn.Close
	}
	return !r.Conn.Close
}

// Idempotent reports whether the method is idempotent (RFC 9110 section 9.2.2).
func (r *Request) Idempotent() bool {
	switch string(r.Method) {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}
