package field

// IsToken reports whether b may occur in a token (RFC 9110 section 5.6.2).
func IsToken(b byte) bool { return tokenTable[b] }

// IsName reports whether s is a token and so a valid field name.
func IsName[T string | []byte](s T) bool {
	for i := range len(s) {
		if !IsToken(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

var tokenTable = func() (t [256]bool) {
	for b := byte('0'); b <= '9'; b++ {
		t[b] = true
	}
	for b := byte('a'); b <= 'z'; b++ {
		t[b], t[b-'a'+'A'] = true, true
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		t[b] = true
	}
	return t
}()
