package http2

import (
	"net/http"
	"net/textproto"
	"strings"
)

// copyAnswerFields gives the fields of the container's answer to the client,
// but for those that belong to one connection (RFC 9110 section 7.6.1) and
// those in which only the gate speaks.
func copyAnswerFields(dst, src http.Header) {
	named := src["Connection"]
	for name, values := range src {
		switch name {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
			"Te", "Transfer-Encoding", "Upgrade":
			continue
		}
		if strings.HasPrefix(name, "K-Gate-") || named != nil && isNamed(named, name) {
			continue
		}
		dst[name] = values
	}
}

// isNamed reports whether Connection names a field that it may remove.
func isNamed(connection []string, name string) bool {
	if isProtected(name) {
		return false
	}
	for _, v := range connection {
		for _, option := range strings.Split(v, ",") {
			if strings.EqualFold(textproto.TrimString(option), name) {
				return true
			}
		}
	}
	return false
}

// isProtected lists the fields, in canonical form, that Connection cannot
// remove.
func isProtected(name string) bool {
	return name == "Host" || name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") ||
		strings.HasPrefix(name, "K-") || strings.HasPrefix(name, "Content-")
}

// mayTrail tells trailer fields, in canonical form, that may go on from those
// that frame or route a message and therefore must not come late (RFC 9110
// section 6.5.1).
func mayTrail(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Authorization":
		return false
	}
	return !isProtected(name) && !strings.HasPrefix(name, "Knative-Serving-")
}

// announce lists the trailers that the container has announced.
func announce(dst, trailer http.Header) {
	var names []string
	for name := range trailer {
		if mayTrail(name) {
			names = append(names, name)
		}
	}
	if names != nil {
		dst["Trailer"] = names
	}
}

// copyTrailers hands trailers on, announced or not.
func copyTrailers(dst, src http.Header) {
	for name, values := range src {
		if len(values) > 0 && mayTrail(name) {
			dst[trailerKey(name)] = values
		}
	}
}

// trailerKey is where the library looks for a trailer that was not announced.
func trailerKey(name string) string {
	switch name {
	case "Grpc-Status":
		return http.TrailerPrefix + "Grpc-Status"
	case "Grpc-Message":
		return http.TrailerPrefix + "Grpc-Message"
	case "Grpc-Status-Details-Bin":
		return http.TrailerPrefix + "Grpc-Status-Details-Bin"
	}
	return http.TrailerPrefix + name
}
