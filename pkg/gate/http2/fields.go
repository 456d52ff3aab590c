package http2

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// copyAnswerFields gives the fields of the container's answer to the client,
// but for those that belong to one connection (RFC 9110 section 7.6.1) and
// those in which only the gate speaks.
func copyAnswerFields(dst, src http.Header) {
	named := src["Connection"]
	for name, values := range src {
		switch field.Of(bytesOf(name)) {
		case field.Connection, field.HopByHop, field.TE, field.TransferEncoding, field.Upgrade, field.Gate:
			continue
		}
		if named != nil && isNamed(named, name) {
			continue
		}
		dst[name] = values
	}
}

// isNamed reports whether Connection names a field that it may remove.
func isNamed(connection []string, name string) bool {
	if field.IsProtected(bytesOf(name)) {
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

// announce lists the trailers that the container has announced.
func announce(dst, trailer http.Header) {
	var names []string
	for name := range trailer {
		if field.MayTrail(bytesOf(name)) {
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
		if len(values) > 0 && field.MayTrail(bytesOf(name)) {
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
