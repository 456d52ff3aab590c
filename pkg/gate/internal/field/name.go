package field

// EqualFold reports whether b equals lower, ignoring case. lower must be in lower case
// (ASCII).
func EqualFold(b []byte, lower string) bool {
	return len(b) == len(lower) && HasPrefixFold(b, lower)
}

// HasPrefixFold reports whether b begins with lower, ignoring case. lower must be in
// lower case (ASCII).
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

// IsTrustedOnly reports whether the gate accepts a field only from trusted sources. Such
// a field describes the client to the application, or tells the gate how to count the
// request. A byte that is not a letter or a digit counts as a hyphen: CGI, WSGI, PHP and
// Rack treat X_Forwarded_For like X-Forwarded-For (RFC 3875 section 4.1.18), and some
// servers also treat X.Forwarded.For like it.
func IsTrustedOnly(name []byte) bool {
	if len(name) < len("x-real-ip") {
		return false
	}
	switch name[0] | 0x20 {
	case 'x':
		return hasPrefixFolded(name, "x-forwarded-") || equalFolded(name, "x-real-ip") || equalFolded(name, "x-request-start")
	case 'f':
		return equalFolded(name, "forwarded")
	case 'k':
		return hasPrefixFolded(name, "knative-serving-") || equalFolded(name, "k-proxy-request") || equalFolded(name, "k-original-host")
	}
	return false
}

func equalFolded(name []byte, lower string) bool {
	return len(name) == len(lower) && hasPrefixFolded(name, lower)
}

// hasPrefixFolded is like HasPrefixFold, except that a byte of name that is neither a
// letter nor a digit counts as a hyphen (see IsTrustedOnly).
func hasPrefixFolded(name []byte, lower string) bool {
	if len(name) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case (c < 'a' || c > 'z') && !IsDigit(c):
			c = '-'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// IsProtected reports whether a Connection field must not remove the field. Otherwise a
// client could remove fields that the platform or the gate has set.
func IsProtected(name []byte) bool {
	return EqualFold(name, "host") || HasPrefixFold(name, "k-") || HasPrefixFold(name, "content-") || IsTrustedOnly(name)
}

// IsAllowedTrailer reports whether a field may be forwarded as a trailer. Fields that
// frame or route a message may not (RFC 9110 section 6.5.1).
func IsAllowedTrailer(name []byte) bool {
	switch Of(name) {
	case Other, Date, UserAgent, Trace, TraceState, WebSocketKey, WebSocketAccept, LoadFormat, LoadReport:
		return !EqualFold(name, "authorization") && !IsProtected(name)
	}
	return false
}
