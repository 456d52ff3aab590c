package h2

// cutString returns the string literal at the start of b (RFC 7541 section 5.2).
func cutString(b []byte) (huffman bool, s, rest []byte, err *Error) {
	if len(b) == 0 {
		return false, nil, nil, errTruncated
	}
	huffman = b[0]&0x80 != 0
	n := uint32(b[0] & 0x7f)
	b = b[1:]
	if n == 0x7f {
		if n, b, err = readMore(n, b); err != nil {
			return false, nil, nil, err
		}
	}
	if n > uint32(len(b)) {
		return false, nil, nil, errTruncated
	}
	return huffman, b[:n], b[n:], nil
}

// readMore reads the rest of an integer whose prefix bits are all 1 (RFC 7541 section
// 5.1). It rejects integers of 2^28 or more.
func readMore(prefix uint32, b []byte) (n uint32, rest []byte, err *Error) {
	n = prefix
	for i := range 4 {
		if i == len(b) {
			return 0, nil, errTruncated
		}
		n += uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], nil
		}
	}
	return 0, nil, errInteger
}

// appendInt appends the integer n (RFC 7541 section 5.1). The prefix of n occupies the
// lower bits of the first octet. The parameter bits is the number of these lower bits.
// The upper bits of this octet are taken from repr.
func appendInt(dst []byte, repr byte, bits uint, n int) []byte {
	full := 1<<bits - 1
	if n < full {
		return append(dst, repr|byte(n))
	}
	dst = append(dst, repr|byte(full))
	for n -= full; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
