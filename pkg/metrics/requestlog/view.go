package requestlog

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// input is the data of a template.
type input struct {
	Request  *request
	Response *response
	Revision *RevisionInfo
	TraceID  string
}

// request is the http.Request of a net/http server, without its body.
type request struct{ *http.Request }

// Cookie returns nil if the request has no cookie with this name. An error would suppress
// the log line.
func (r *request) Cookie(name string) cookie {
	c, err := r.Request.Cookie(name)
	if err != nil {
		return nil
	}
	return cookie{"Name": c.Name, "Value": c.Value, "": c.String()}
}

// cookie has the fields of an http.Cookie. It is a map because a template can read
// fields of a nil map, but not of a nil pointer.
type cookie map[string]string

func (c cookie) String() string { return c[""] }

// String returns "", so that a template cannot print the whole request.
func (*request) String() string { return "" }

type response struct {
	Code    int
	Size    int
	Latency float64 // in seconds
}

// view creates the data for a template from an entry. All entries use the same memory.
// So the data of an entry is valid only until the data of the next entry is created.
type view struct {
	header http.Header
	values []string // memory for the strings in the field header; reused for each entry
}

func (v *view) inputOf(e *Entry, revision *RevisionInfo) *input {
	text := string(e.text) // convert once; all strings below are substrings
	part := func(from, to int) string { return text[from:to] }
	target := part(e.fixed[0], e.fixed[1])
	r := &http.Request{
		Method:        part(0, e.fixed[0]),
		URL:           parseTarget(target),
		Proto:         part(e.fixed[1], e.fixed[2]),
		Header:        v.fields(e, text),
		ContentLength: requestSize(e),
		Host:          part(e.fixed[2], e.fixed[3]),
		RequestURI:    target,
	}
	r.ProtoMajor, r.ProtoMinor = protocolVersion(r.Proto)
	if e.peer.IsValid() {
		r.RemoteAddr = e.peer.String()
	}
	if coding := e.first("Transfer-Encoding"); coding != nil {
		r.TransferEncoding = []string{string(coding)}
	}
	return &input{
		Request:  &request{r},
		Response: &response{e.result.Status, int(e.result.ResponseBytes), e.result.Total.Seconds()},
		Revision: revision,
		TraceID:  traceID(e),
	}
}

// fields returns the header fields of an entry. It omits Host and Transfer-Encoding,
// because net/http does not store them in the Header of an http.Request. The parameter
// text has the content of e.text.
func (v *view) fields(e *Entry, text string) http.Header {
	if v.header == nil {
		v.header = http.Header{}
	}
	clear(v.header)
	clear(v.values)
	v.values = v.values[:0]
	for _, f := range e.fields {
		key := textproto.CanonicalMIMEHeaderKey(text[f.start:f.nameEnd])
		value := text[f.nameEnd:f.valueEnd]
		if key == "Host" || key == "Transfer-Encoding" {
			continue
		}
		if known := v.header[key]; known != nil {
			v.header[key] = append(known, value)
			continue
		}
		v.values = append(v.values, value)
		n := len(v.values)
		v.header[key] = v.values[n-1 : n : n]
	}
	return v.header
}

// parseTarget parses a target. If it is not a URL, parseTarget splits it into path
// and query.
func parseTarget(target string) *url.URL {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		u = new(url.URL)
		u.Path, u.RawQuery, _ = strings.Cut(target, "?")
	}
	return u
}

// protocolVersion returns the numbers in a protocol such as HTTP/1.1. A missing number
// counts as 0, so HTTP/2 has the minor version 0.
func protocolVersion(protocol string) (major, minor int) {
	_, version, _ := strings.Cut(protocol, "/")
	before, after, _ := strings.Cut(version, ".")
	major, _ = strconv.Atoi(before)
	minor, _ = strconv.Atoi(after)
	return major, minor
}
