package field

import (
	"encoding/binary"
	"math"
)

// IsText reports whether b contains no control byte except tab (RFC 9110 section 5.5).
func IsText(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		del := x ^ 0x7f*ones
		suspect := (x-0x20*ones)&^x&highs | (del-ones)&^del&highs
		if suspect != 0 && !isTextSlow(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return isTextSlow(b)
}

func isTextSlow(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// ReadLength parses a Content-Length: digits only, below 2^63.
func ReadLength(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range v {
		if !IsDigit(c) {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return int64(n), n <= math.MaxInt64
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsHex reports whether c is a hexadecimal digit, of either case.
func IsHex(c byte) bool { return hexDigits[c] }

var hexDigits = func() (t [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		t[c] = true
	}
	return t
}()
