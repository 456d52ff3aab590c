package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// allMayTrail reports whether a Trailer field announces nothing that must not
// come late.
func allMayTrail(v []byte) bool {
	return options(v, field.MayTrail)
}

// appendTrailer writes a Trailer field without the names that may not trail,
// or nothing if none is left.
func appendTrailer(dst, v []byte) []byte {
	sep := "Trailer: "
	options(v, func(name []byte) bool {
		if field.MayTrail(name) {
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
