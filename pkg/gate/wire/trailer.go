package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// onlyAllowedTrailers reports whether a Trailer field names only fields that are allowed
// as trailers.
func onlyAllowedTrailers(v []byte) bool {
	return eachOption(v, field.IsAllowedTrailer)
}

// announce decides whether a Trailer field with the value v is forwarded. announced is
// the number of fields that the Trailer fields of the head have announced, including v.
func (f *Field) announce(v []byte, announced int) {
	switch {
	case announced > maxOptions:
		f.out = dropped // Trailer is only a hint: drop it instead of parsing a long list
	case !onlyAllowedTrailers(v):
		f.out = max(f.out, trailerLine)
	}
}

// appendTrailer appends a Trailer field without the names that are not allowed as
// trailers. If no name is left, it appends nothing.
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

// AnnouncesTrailers reports whether the request has a body, a Trailer field, and a
// framing that allows trailers.
func (r *Request) AnnouncesTrailers() bool {
	return r.hasTrailerField && (r.Body == BodyChunked || r.HTTP2 && r.Body != NoBody)
}

// MayHaveTrailers reports whether unannounced trailers may follow the body. It is true if
// the body has no length, except for gRPC calls, which have no request trailers.
func (r *Request) MayHaveTrailers() bool { return r.Body == BodyChunked && !r.GRPC() }
