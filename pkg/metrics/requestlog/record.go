package requestlog

import (
	"bytes"
	"fmt"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// record is what a template sees: an entry, its parts made when they are asked
// for. A record is used for one entry after the other.
type record struct {
	entry    *Entry
	revision *RevisionInfo

	header header
	url    *url.URL
}

func (rec *record) reset(e *Entry, revision *RevisionInfo) {
	*rec = record{entry: e, revision: revision}
}

// object is a value that has members. An error wraps errMissing where
// nothing is wrong with the template.
type object interface {
	member(name string, args []any) (any, error)
}

// The objects by their names in a template: ., .Request, .Response, .Revision,
// .Request.Header, .Request.URL and its Query. A copy of the record's pointer
// each.
type (
	rootObject     struct{ rec *record }
	requestObject  struct{ rec *record }
	responseObject struct {
		Code    int
		Size    int
		Latency float64
	}
	urlObject struct{ *url.URL }

	header map[string][]string
	query  map[string][]string
	list   []string
)

func (rootObject) String() string    { return "" }
func (requestObject) String() string { return "" }

func (o rootObject) member(name string, args []any) (any, error) {
	switch name {
	case "Request":
		return requestObject{o.rec}, noArguments(name, args)
	case "Response":
		r := &o.rec.entry.result
		return responseObject{r.Status, int(r.ResponseBytes), r.Total.Seconds()}, noArguments(name, args)
	case "Revision":
		return *o.rec.revision, noArguments(name, args)
	case "TraceID":
		return traceID(o.rec.entry), noArguments(name, args)
	}
	return nil, unknownMember(name, "the record")
}

func (o responseObject) member(name string, args []any) (any, error) {
	switch name {
	case "Code":
		return o.Code, noArguments(name, args)
	case "Size":
		return o.Size, noArguments(name, args)
	case "Latency":
		return o.Latency, noArguments(name, args)
	}
	return nil, unknownMember(name, ".Response")
}

func (r RevisionInfo) member(name string, args []any) (any, error) {
	value, ok := map[string]string{
		"Name": r.Name, "Namespace": r.Namespace, "Service": r.Service, "Configuration": r.Configuration,
		"PodName": r.PodName, "PodIP": r.PodIP,
	}[name]
	if !ok {
		return nil, unknownMember(name, ".Revision")
	}
	return value, noArguments(name, args)
}

// member has what an http.Request that a server got has, as far as it can be
// printed.
func (o requestObject) member(name string, args []any) (any, error) {
	e := o.rec.entry
	switch name {
	case "ProtoAtLeast":
		var n [2]int
		if err := wholeArguments(name, args, n[:]); err != nil {
			return nil, err
		}
		major, minor := protocolVersion(e.protocol())
		return major > n[0] || major == n[0] && minor >= n[1], nil
	case "FormValue":
		key, err := textArgument(name, args)
		return url.Values(o.rec.parsedURL().Query()).Get(key), err
	case "PathValue", "PostFormValue":
		_, err := textArgument(name, args)
		return "", err
	}
	var value any
	switch name {
	case "Method":
		value = string(e.method())
	case "RequestURI":
		value = string(e.target())
	case "URL":
		value = urlObject{o.rec.parsedURL()}
	case "Proto":
		value = string(e.protocol())
	case "ProtoMajor":
		value, _ = protocolVersion(e.protocol())
	case "ProtoMinor":
		_, value = protocolVersion(e.protocol())
	case "Header":
		value = o.rec.parsedHeader()
	case "Host":
		value = string(e.host())
	case "RemoteAddr":
		value = ""
		if e.peer.IsValid() {
			value = e.peer.String()
		}
	case "UserAgent":
		value = string(e.first("User-Agent"))
	case "Referer":
		value = string(e.first("Referer"))
	case "ContentLength":
		value = contentLengthOrNone(e)
	case "TransferEncoding":
		value = list(nil)
		if coding := e.first("Transfer-Encoding"); coding != nil {
			value = list{string(coding)}
		}
	case "Trailer":
		value = header(nil)
	case "Close":
		value = false
	case "Pattern":
		value = ""
	case "Form", "PostForm":
		value = query(nil)
	case "TLS", "Body", "MultipartForm", "Response":
	default:
		return nil, unknownMember(name, ".Request")
	}
	return value, noArguments(name, args)
}

// contentLengthOrNone is 0 for a request without a body, unlike contentLength.
func contentLengthOrNone(e *Entry) int64 {
	n := contentLength(e)
	if n < 0 && e.result.RequestBytes == 0 {
		return 0
	}
	return n
}

func (rec *record) parsedHeader() header {
	if rec.header == nil {
		rec.header = header{}
		for i := range rec.entry.fields {
			name, value := rec.entry.field(i)
			key := textproto.CanonicalMIMEHeaderKey(string(name))
			if key != "Host" && key != "Transfer-Encoding" { // net/http keeps them elsewhere
				rec.header[key] = append(rec.header[key], string(value))
			}
		}
	}
	return rec.header
}

// parsedURL is never nil: of a target that is no URL, path and query are cut
// out as they are.
func (rec *record) parsedURL() *url.URL {
	if rec.url == nil {
		target := string(rec.entry.target())
		u, err := url.ParseRequestURI(target)
		if err != nil {
			u = &url.URL{}
			u.Path, u.RawQuery, _ = strings.Cut(target, "?")
		}
		rec.url = u
	}
	return rec.url
}

func (o urlObject) member(name string, args []any) (any, error) {
	var value any
	switch name {
	case "Scheme":
		value = o.Scheme
	case "Opaque":
		value = o.Opaque
	case "Host":
		value = o.Host
	case "Path":
		value = o.Path
	case "RawPath":
		value = o.RawPath
	case "RawQuery":
		value = o.RawQuery
	case "ForceQuery":
		value = o.ForceQuery
	case "Fragment":
		value = o.Fragment
	case "RawFragment":
		value = o.RawFragment
	case "String":
		value = o.String()
	case "Redacted":
		value = o.Redacted()
	case "EscapedPath":
		value = o.EscapedPath()
	case "RequestURI":
		value = o.RequestURI()
	case "Hostname":
		value = o.Hostname()
	case "Port":
		value = o.Port()
	case "IsAbs":
		value = o.IsAbs()
	case "Query":
		value = query(o.Query())
	case "User":
	default:
		return nil, unknownMember(name, ".Request.URL")
	}
	return value, noArguments(name, args)
}

func (h header) member(name string, args []any) (any, error) {
	switch name {
	case "Get":
		key, err := textArgument(name, args)
		return textproto.MIMEHeader(h).Get(key), err
	case "Values":
		key, err := textArgument(name, args)
		return list(textproto.MIMEHeader(h).Values(key)), err
	}
	return list(h[name]), noArguments(name, args)
}

func (q query) member(name string, args []any) (any, error) {
	switch name {
	case "Get":
		key, err := textArgument(name, args)
		return url.Values(q).Get(key), err
	case "Has":
		key, err := textArgument(name, args)
		return url.Values(q).Has(key), err
	case "Encode":
		return url.Values(q).Encode(), noArguments(name, args)
	}
	return list(q[name]), noArguments(name, args)
}

// protocolVersion reads HTTP/1.1, and HTTP/2 as 2.0.
func protocolVersion(protocol []byte) (major, minor int) {
	_, version, _ := bytes.Cut(protocol, []byte{'/'})
	before, after, _ := bytes.Cut(version, []byte{'.'})
	major, _ = strconv.Atoi(string(before))
	minor, _ = strconv.Atoi(string(after))
	return major, minor
}

func unknownMember(name, of string) error { return fmt.Errorf("%s has no %s", of, name) }

func noArguments(name string, args []any) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments", name)
	}
	return nil
}

func textArgument(name string, args []any) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("%s takes one argument, not %d", name, len(args))
	}
	text, ok := asText(args[0])
	if !ok {
		return "", fmt.Errorf("%s takes a string, not %v", name, args[0])
	}
	return text, nil
}

func wholeArguments(name string, args []any, into []int) error {
	if len(args) != len(into) {
		return fmt.Errorf("%s takes %d arguments, not %d", name, len(into), len(args))
	}
	for i, arg := range args {
		n, ok := asInt(arg)
		if !ok {
			return fmt.Errorf("%s takes whole numbers, not %v", name, arg)
		}
		into[i] = int(n)
	}
	return nil
}
