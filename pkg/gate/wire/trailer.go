package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// onlyAllowedTrailers reports whether a Trailer field names only fields that are allowed
// as trailers.
func onlyAllowedTrailers(v []byte) bool {
	return eachOption(v, field.IsAllowedTrailer)
}

// announce decides whether to forward a Trailer field with the value v. announced counts
// the names in all Trailer fields so far, including v.
func (f *Field) announce(v []byte, announced int) {
	switch {
	case announced > maxOptions:
		f.out = dropped // Trailer is only a hint, so a long list is not parsed
	case !onlyAllowedTrailers(v):
		f.out = max(f.out, trailerLine)
	}
}

// appendTrailer appends a Trailer field without names that are not allowed. If no name is
// left, it appends nothing.
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

// MayHaveTrailers reports whether unannounced trailers may follow the body: it has no
// length and the request is not a gRPC call, which has no trailers.
func (r *Request) MayHaveTrailers() bool { return r.Body == BodyChunked && !r.GRPC() }
