package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// onlyAllowedTrailers reports whether a Trailer field names only fields that are allowed
// as trailers.
func onlyAllowedTrailers(v []byte) bool {
	return eachOption(v, field.IsAllowedTrailer)
}

// announce chooses how to forward a Trailer field with the value v: unchanged, without
// the names that are not allowed, or not at all. The parameter announced is the number of
// names in the Trailer fields up to and including this one.
func (f *Field) announce(v []byte, announced int) {
	switch {
	case announced > maxOptions:
		f.out = dropped // Trailer is only a hint, so a long list is not parsed
	case !onlyAllowedTrailers(v):
		f.out = max(f.out, trailerLine)
	}
}

// appendTrailer appends a Trailer field with the value v. It removes the names of fields
// that are forbidden as trailers. If no name remains, it appends nothing.
func appendTrailer(dst, v []byte) []byte {
	sep := "Trailer: "
	eachOption(v, func(name []byte) bool {
		if field.IsAllowedTrailer(name) {
			dst = append(append(dst, sep...), name...)
			sep = ", "
		}
		return true
	})
	if sep == ", " {
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// AnnouncesTrailers reports whether the request announces trailers that its framing
// allows.
func (r *Request) AnnouncesTrailers() bool {
	return r.hasTrailerField && (r.Body == BodyChunked || r.HTTP2 && r.Body != NoBody)
}

// MayHaveTrailers reports whether trailers may follow the body although the request does
// not announce them. It is false if the request has a Content-Length. It is also false
// for a gRPC call, because gRPC requests have no trailers.
func (r *Request) MayHaveTrailers() bool { return r.Body == BodyChunked && !r.GRPC() }
