package field

// EqualFold reports whether b is lower, which is ASCII in lower case, in any
// case of ASCII letters.
func EqualFold(b []byte, lower string) bool {
	return len(b) == len(lower) && HasPrefixFold(b, lower)
}

// HasPrefixFold reports likewise whether b begins with lower.
func HasPrefixFold(b []byte, lower string) bool {
	if len(b) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// IsProtected lists the fields that Connection cannot remove: a client could
// otherwise take away what the platform, or this gate, says about the request.
func IsProtected(name []byte) bool {
	return EqualFold(name, "host") || EqualFold(name, "forwarded") ||
		HasPrefixFold(name, "x-forwarded-") || HasPrefixFold(name, "k-") || HasPrefixFold(name, "content-")
}

// MayTrail tells trailer fields that may go on from those that frame or route
// a message and therefore must not come late (RFC 9110 section 6.5.1).
func MayTrail(name []byte) bool {
	switch Of(name) {
	case Other, Date, UserAgent, Trace, TraceState:
		return !EqualFold(name, "authorization") && !IsProtected(name) && !HasPrefixFold(name, "knative-serving-")
	}
	return false
}
