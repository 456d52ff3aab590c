package field

// EqualFold reports whether b equals lower, case-insensitively. lower is ASCII in lower
// case.
func EqualFold(b []byte, lower string) bool {
	return len(b) == len(lower) && HasPrefixFold(b, lower)
}

// HasPrefixFold reports whether b begins with lower, case-insensitively. lower is ASCII
// in lower case.
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

// IsTrustedOnly reports whether only trusted sources may send a field: such fields
// tell the application who its client is or when its request arrived, or tell the gate
// how to count the request. A byte other than a letter or a digit counts as a hyphen, because CGI,
// WSGI, PHP and Rack do not distinguish X_Forwarded_For, and some servers
// X.Forwarded.For, from X-Forwarded-For (RFC 3875 section 4.1.18).
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

// hasPrefixFolded is like HasPrefixFold, but any byte of the name other than a
// letter or a digit counts as a hyphen.
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

// IsProtected reports fields that Connection cannot remove: a client could otherwise
// remove what the platform, or this gate, says about the request.
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
