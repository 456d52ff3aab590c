package field

import (
	"bytes"
	"net/netip"
)

// IsHost reports whether v is uri-host [ ":" port ] (RFC 9110 section 7.2).
func IsHost(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	port := []byte(nil)
	if v[0] == '[' {
		end := bytes.IndexByte(v, ']')
		if end < 0 || !isIPLiteral(v[1:end]) {
			return false
		}
		if rest := v[end+1:]; len(rest) > 0 {
			if rest[0] != ':' {
				return false
			}
			port = rest[1:]
		}
	} else {
		name := v
		if i := bytes.IndexByte(v, ':'); i >= 0 {
			name, port = v[:i], v[i+1:]
		}
		if len(name) == 0 || !isRegName(name) {
			return false
		}
	}
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isRegName reports whether v is a reg-name (RFC 3986 section 3.2.2).
func isRegName(v []byte) bool {
	for i, c := range v {
		if !hostTable[c] || c == '%' && (i+2 >= len(v) || !IsHex(v[i+1]) || !IsHex(v[i+2])) {
			return false
		}
	}
	return true
}

// isIPLiteral reports whether v may be between brackets: an IPv6 address with an optional
// zone, or IPvFuture (RFC 3986 section 3.2.2, RFC 6874).
func isIPLiteral(v []byte) bool {
	if len(v) > 0 && v[0]|0x20 == 'v' {
		version, address, found := bytes.Cut(v[1:], []byte{'.'})
		for _, c := range version {
			found = found && IsHex(c)
		}
		for _, c := range address {
			found = found && (hostTable[c] && c != '%' || c == ':')
		}
		return found && len(version) > 0 && len(address) > 0
	}
	address, zone, zoned := bytes.Cut(v, []byte{'%'})
	if zoned && (len(zone) < 3 || zone[0] != '2' || zone[1] != '5' || !isRegName(zone[2:]) || bytes.ContainsAny(zone, "!$&'()*+,;=")) {
		return false
	}
	a, err := netip.ParseAddr(string(address))
	return err == nil && a.Is6()
}

// hostTable holds unreserved, sub-delims and "%" (RFC 3986 section 3.2.2).
var hostTable = func() (t [256]bool) {
	for _, b := range []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'()*+,;=%") {
		t[b] = true
	}
	return t
}()
