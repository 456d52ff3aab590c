package http2

import (
	"net/http"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// head is a request's head: what it says to the gate, and its way to what the
// container gets. The fields are rewritten in place, in the request's own map.
type head struct {
	header http.Header
	drop   []string // names of fields that the container does not get
	before []line   // what rewrite changed, as it came
	host   string   // as the container sees it
	fields int      // number of field lines
	grpc   bool

	probe           gate.ProbeHeaders
	trace           gate.TraceFields
	traced          bool // some field of trace is there
	proxied         bool // came through the activator
	routeTag        []byte
	defaultRoute    []byte
	hasDefaultRoute bool

	originalHost  string
	sentHost      string // the field, beside :authority
	forwarded     bool   // Forwarded says something
	xFor          []string
	xProto, xHost string
}

// line is a field with all its values.
type line struct {
	name   string
	values []string
}

// read evaluates the fields of r.
func (h *head) read(r *http.Request) {
	h.header = r.Header
	for name, values := range r.Header {
		h.fields += len(values)
		if len(values) > 0 {
			h.note(name, values)
		}
	}
}

// note takes a field, whose name is in canonical form.
func (h *head) note(name string, values []string) {
	first := values[0]
	switch field.Of(bytesOf(name)) {
	case field.Other:
		if name == "Content-Type" {
			h.grpc = isGRPC(first)
		}
	case field.Host:
		h.sentHost = first
		h.drop = append(h.drop, name)
	case field.OriginalHost:
		for _, v := range values {
			if h.originalHost == "" {
				h.originalHost = v
			}
		}
		h.drop = append(h.drop, name)
	case field.RevisionRouting, field.HopByHop, field.Trailer, field.Gate:
		h.drop = append(h.drop, name)
	case field.UserAgent:
		h.probe.UserAgent = trimmed(first)
	case field.NetworkProbe:
		h.probe.NetworkProbe = trimmed(first)
	case field.NetworkHash:
		h.probe.NetworkHash = trimmed(first)
	case field.ProxyRequest:
		h.proxied = first == "activator"
	case field.ServingTag:
		h.routeTag = bytesOf(first)
	case field.DefaultRoute:
		h.defaultRoute, h.hasDefaultRoute = bytesOf(first), true
	case field.Forwarded:
		h.forwarded = first != "" || len(values) > 1
	case field.ForwardedFor:
		h.xFor = values
	case field.ForwardedProto:
		h.xProto = first
	case field.ForwardedHost:
		h.xHost = first
	case field.Trace, field.TraceState:
		h.trace.Note(bytesOf(name), bytesOf(first))
		h.traced = true
	}
}

// isGRPC reports whether a content type is one of gRPC's: application/grpc,
// +proto and the like, or parameters.
func isGRPC(contentType string) bool {
	const base = "application/grpc"
	return strings.HasPrefix(contentType, base) &&
		(len(contentType) == len(base) || contentType[len(base)] == '+' || contentType[len(base)] == ';')
}

// chooseHost decides what the container sees as host: K-Original-Host, else
// the authority, else its own address. It is false if that is not a host, or
// if the client names two (RFC 9113 section 8.3.1).
func (h *head) chooseHost(authority, address string) bool {
	if h.sentHost != "" && !strings.EqualFold(h.sentHost, authority) {
		return false
	}
	switch {
	case h.originalHost != "":
		h.host = h.originalHost
	case authority != "":
		h.host = authority
	default:
		h.host = address
		return true
	}
	return gate.IsHost(bytesOf(h.host))
}

// rewrite turns the fields into those that the container gets. lines replace
// the trace context that came; nil = it goes on.
func (h *head) rewrite(peer netip.Addr, lines []byte) {
	for _, name := range h.drop {
		h.set(name, h.header[name], nil)
	}
	if !h.forwarded && (len(h.xFor) > 0 || h.xProto != "" || h.xHost != "") {
		if made := h.makeForwarded(); made != "" {
			h.set("Forwarded", h.header["Forwarded"], []string{made})
		}
	}
	h.set("X-Forwarded-For", h.xFor, []string{h.forwardedFor(peer)})
	if _, there := h.header["User-Agent"]; !there {
		h.set("User-Agent", nil, nil)
		h.header["User-Agent"] = nil // an absent one would be made up
	}
	if lines != nil {
		h.replaceTrace(lines)
	}
}

// set gives a field new values, nil removes it, and remembers the old ones.
func (h *head) set(name string, old, values []string) {
	h.before = append(h.before, line{name, old})
	if values == nil {
		delete(h.header, name)
	} else {
		h.header[name] = values
	}
}

func (h *head) forwardedFor(peer netip.Addr) string {
	b := make([]byte, 0, 48)
	for _, v := range h.xFor {
		if v != "" {
			b = append(append(b, v...), ", "...)
		}
	}
	return string(peer.AppendTo(b))
}

func (h *head) makeForwarded() string {
	in := gate.ForwardedInput{Proto: bytesOf(h.xProto), Host: bytesOf(h.xHost)}
	for _, v := range h.xFor {
		in.For = append(in.For, bytesOf(v))
	}
	return string(gate.AppendForwarded(nil, in))
}

// replaceTrace puts field lines in the place of the trace context that came;
// tracestate stays.
func (h *head) replaceTrace(lines []byte) {
	for name, values := range h.header {
		if field.Of(bytesOf(name)) == field.Trace {
			h.set(name, values, nil)
		}
	}
	for text := string(lines); text != ""; {
		var one string
		one, text, _ = strings.Cut(text, "\r\n")
		name, value, ok := strings.Cut(one, ":")
		if !ok {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		h.set(name, h.header[name], append(h.header[name], strings.TrimSpace(value)))
	}
}

// Each walks the fields as they came, for observers.
func (h *head) Each(yield func(name, value []byte) bool) {
	for name, values := range h.header {
		if h.changed(name) {
			continue
		}
		if !each(name, values, yield) {
			return
		}
	}
	for i, l := range h.before {
		if !h.changedBefore(i) && !each(l.name, l.values, yield) {
			return
		}
	}
}

func each(name string, values []string, yield func(name, value []byte) bool) bool {
	for _, v := range values {
		if !yield(bytesOf(name), bytesOf(v)) {
			return false
		}
	}
	return true
}

func (h *head) changed(name string) bool {
	for i := range h.before {
		if h.before[i].name == name {
			return true
		}
	}
	return false
}

// changedBefore reports whether an earlier change already tells how the field
// came.
func (h *head) changedBefore(i int) bool {
	for _, l := range h.before[:i] {
		if l.name == h.before[i].name {
			return true
		}
	}
	return false
}

// trimmed is a value without white space around it; never nil.
func trimmed(s string) []byte { return bytesOf(strings.Trim(s, " \t")) }

// bytesOf is s as bytes, which nobody may change. It is not nil.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
