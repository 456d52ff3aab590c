package hostile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// perHop are the fields that are not forwarded unchanged, in lower case.
var perHop = []string{
	"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "transfer-encoding",
	"upgrade", "host", "content-length", "x-forwarded-for", "forwarded", "k-original-host",
	"knative-serving-namespace", "knative-serving-revision", "date",
}

// protected reports whether a field stays even if Connection names it.
func protected(name string) bool {
	return name == "host" || name == "forwarded" || strings.HasPrefix(name, "x-forwarded-") ||
		strings.HasPrefix(name, "k-") || strings.HasPrefix(name, "content-")
}

func endToEnd(m message, fields []field) []field {
	var forwarded []field
	for _, f := range fields {
		name := strings.ToLower(f.name)
		if slices.Contains(perHop, name) || m.has("Connection", name) && !protected(name) || m.status > 0 && strings.HasPrefix(name, "k-gate-") {
			continue
		}
		forwarded = append(forwarded, f)
	}
	return forwarded
}

// compareRequests describes the differences between a sent and a forwarded request.
func compareRequests(sent, got message) []string {
	var all []string
	target := sent.target
	if scheme, rest, absolute := strings.Cut(target, "://"); absolute && !strings.HasPrefix(scheme, "/") {
		target = "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target = rest[i:]
			if target[0] == '?' {
				target = "/" + target
			}
		}
	}
	if got.method != sent.method || got.target != target {
		all = append(all, fmt.Sprintf("arrived as %s %.80q, not %s %.80q", got.method, got.target, sent.method, target))
	}
	if got.version != "HTTP/1.1" {
		all = append(all, "arrived as "+got.version)
	}
	if got.framing != sent.framing {
		all = append(all, "arrived with another framing")
	}
	if !bytes.Equal(got.body, sent.body) {
		all = append(all, fmt.Sprintf("arrived with %d bytes of body, not %d", len(got.body), len(sent.body)))
	}
	wanted := endToEnd(sent, sent.fields)
	if sent.version == "HTTP/1.0" {
		expects := func(f field) bool { return strings.EqualFold(f.name, "Expect") }
		wanted = slices.DeleteFunc(wanted, expects)
	}
	all = append(all, compareFields(wanted, endToEnd(got, got.fields))...)
	return append(all, compareFields(endToEnd(sent, sent.trailers), endToEnd(got, got.trailers))...)
}

// compareResponses describes the differences between the container's response and the
// forwarded one.
func compareResponses(sent, got, request message) []string {
	var all []string
	if got.status != sent.status || got.reason != sent.reason {
		all = append(all, fmt.Sprintf("arrived as %d %q, not %d %q", got.status, got.reason, sent.status, sent.reason))
	}
	if got.version != "HTTP/1.1" {
		all = append(all, "arrived as "+got.version)
	}
	if !bytes.Equal(got.body, sent.body) {
		all = append(all, fmt.Sprintf("arrived with %d bytes of body, not %d", len(got.body), len(sent.body)))
	}
	if _, dated := got.get("Date"); !dated {
		all = append(all, "arrived without Date")
	}
	if request.method == "HEAD" || sent.status == 304 {
		a, _ := sent.get("Content-Length")
		b, _ := got.get("Content-Length")
		if a != b {
			all = append(all, fmt.Sprintf("arrived with Content-Length %q, not %q", b, a))
		}
	}
	all = append(all, compareFields(endToEnd(sent, sent.fields), endToEnd(got, got.fields))...)
	if request.version == "HTTP/1.0" {
		return all
	}
	return append(all, compareFields(endToEnd(sent, sent.trailers), endToEnd(got, got.trailers))...)
}

// compareFields compares names, values, order and number.
func compareFields(sent, got []field) []string {
	for i, f := range sent {
		if i >= len(got) {
			return []string{fmt.Sprintf("lost %.60q", f)}
		}
		if got[i] != f {
			return []string{fmt.Sprintf("field %d is %.60q, not %.60q", i, got[i], f)}
		}
	}
	if len(got) > len(sent) {
		return []string{fmt.Sprintf("gained %.60q", got[len(sent)])}
	}
	return nil
}

// compareSeen checks the fields that the case expects or excludes.
func (o *outcome) compareSeen(m message) []string {
	var all []string
	fields := slices.Concat(m.fields, m.trailers)
	variables := map[string]string{"userport": o.userPort}
	for _, s := range o.c.seen {
		steps, err := expand(s, variables)
		if err != nil {
			return []string{err.Error()}
		}
		name, value, _ := strings.Cut(string(written(steps)), ": ")
		if !slices.ContainsFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) && f.value == value }) {
			got, _ := getField(fields, name)
			all = append(all, fmt.Sprintf("%s is %.60q, not %.60q", name, got, value))
		}
	}
	for _, s := range o.c.unseen {
		name, value, exact := strings.Cut(s, ": ")
		if slices.ContainsFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) && (!exact || f.value == value) }) {
			all = append(all, s+" was not removed")
		}
	}
	return all
}
