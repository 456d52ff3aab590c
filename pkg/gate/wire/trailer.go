package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// onlyAllowedTrailers reports whether a Trailer field names only fields that are
// allowed as trailers.
func onlyAllowedTrailers(v []byte) bool {
	return eachOption(v, field.IsAllowedTrailer)
}

// announce decides whether a Trailer field with the value v is forwarded. announced is
// the number of fields that the head has announced so far.
func (f *Field) announce(v []byte, announced int) {
	switch {
	case announced > maxOptions:
		f.out = dropped // only a hint: drop it instead of parsing a long list
	case !onlyAllowedTrailers(v):
		f.out = max(f.out, trailerLine)
	}
}

// appendTrailer appends a Trailer field without the names that are not allowed as
// trailers; nothing if none is left.
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

// MayHaveTrailers reports whether unannounced trailers may follow the body: it has
// no length, and the request is not a gRPC call, because those have no request
// trailers.
func (r *Request) MayHaveTrailers() bool { return r.Body == BodyChunked && !r.GRPC() }
