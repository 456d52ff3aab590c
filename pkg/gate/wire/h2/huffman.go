package h2

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/net/http2/hpack"
)

const (
	huffmanShort   = 5  // shortest code in bits
	huffmanLong    = 30 // longest code in bits
	huffmanRoot    = 11 // bits per look-up, enough for two frequent symbols
	huffmanSymbols = 256
)

// huffmanRoots is indexed by the next huffmanRoot bits of the input. An entry decodes one
// or two symbols. It is 0 if the next code is longer than huffmanRoot bits.
//
//	bits of an entry   content
//	0-7                first symbol
//	8-15               second symbol, if there are two
//	16-19              length of the first code in bits
//	20-23              length of all decoded codes in bits
//	24-25              number of decoded symbols: 1 or 2
var huffmanRoots [1 << huffmanRoot]uint32

// These tables decode codes longer than huffmanRoot bits. If the next code has n bits,
// the next 32 bits of the input are at least longFirst[n] and less than longLimit[n]. All
// symbols are in huffmanSorted, in the order of their codes. The symbols whose codes have
// n bits begin at the index longSorted[n].
var (
	longFirst, longLimit [huffmanLong + 1]uint32
	longSorted           [huffmanLong + 1]uint8
	huffmanSorted        [huffmanSymbols]byte
)

// init builds the tables. The Huffman code of HPACK (RFC 7541 appendix B) is canonical,
// so the lengths of the codes are sufficient to compute the codes.
func init() {
	var lengths [huffmanSymbols]byte
	for s := range lengths {
		// HuffmanEncodeLength returns octets, but the length in bits is needed. Eight
		// copies of a symbol of n bits take exactly n octets.
		lengths[s] = byte(hpack.HuffmanEncodeLength(string(bytes.Repeat([]byte{byte(s)}, 8))))
	}
	var codes [huffmanSymbols]uint32 // right-aligned
	code, sorted := uint32(0), 0
	for n := huffmanShort; n <= huffmanLong; n++ {
		code <<= 1
		longFirst[n], longSorted[n] = code<<(32-n), uint8(sorted)
		for s := range huffmanSymbols {
			if int(lengths[s]) == n {
				codes[s] = code
				huffmanSorted[sorted] = byte(s)
				code++
				sorted++
			}
		}
		longLimit[n] = code << (32 - n)
	}
	for _, a := range huffmanSorted {
		n := lengths[a]
		if n > huffmanRoot {
			break
		}
		fillRoots(codes[a], n, uint32(a)|uint32(n)<<16|uint32(n)<<20|1<<24)
		for _, b := range huffmanSorted {
			m := n + lengths[b]
			if m > huffmanRoot {
				break
			}
			fillRoots(codes[a]<<lengths[b]|codes[b], m, uint32(a)|uint32(b)<<8|uint32(n)<<16|uint32(m)<<20|2<<24)
		}
	}
}

// fillRoots sets the entries of huffmanRoots whose index begins with a code of n bits.
func fillRoots(code uint32, n byte, entry uint32) {
	from, to := code<<(huffmanRoot-n), (code+1)<<(huffmanRoot-n)
	for i := from; i < to; i++ {
		huffmanRoots[i] = entry
	}
}

type decodeResult uint8

const (
	decodedAll decodeResult = iota
	tooLong                 // the limit was exceeded; the decoded part is discarded
	corrupt
)

// appendDecoded appends the Huffman decoding of src (RFC 7541 section 5.2), at most limit
// octets.
func appendDecoded(dst, src []byte, limit int) ([]byte, decodeResult) {
	// The decoder checks the limit once per load of 8 octets. Between two checks, it
	// decodes up to 63 bits, which are at most 12 symbols of 5 or more bits. The last
	// write may include one unused byte. So 13 bytes beyond the limit are needed.
	const slack = 16
	start := len(dst)
	dst = slices.Grow(dst, min(len(src)*8/huffmanShort, limit)+slack)
	out := dst[start:cap(dst)]
	var bits uint64 // next bits, left-aligned
	// n is the number of bits that have been taken from src but not decoded. The bits
	// after them are 0, or they equal the first bits of src. The next load sets the same
	// bits again, which changes nothing.
	var n uint
	w := 0
	for len(src) >= 8 {
		bits |= binary.BigEndian.Uint64(src) >> n
		src = src[(63-n)>>3:]
		n |= 56
		for n >= huffmanLong {
			if e := huffmanRoots[bits>>(64-huffmanRoot)]; e != 0 {
				out[w], out[w+1] = byte(e), byte(e>>8)
				w += int(e >> 24)
				used := uint(e>>20) & 15
				bits <<= used
				n -= used
				continue
			}
			symbol, used := longCode(uint32(bits >> 32))
			if used == 0 {
				return dst, corrupt
			}
			out[w] = symbol
			w++
			bits <<= used
			n -= used
		}
		if w > limit {
			return dst, tooLong
		}
	}
	w, result := decodeEnd(out, src, bits, n, w, limit)
	if result != decodedAll {
		return dst, result
	}
	return dst[:start+w], decodedAll
}

// decodeEnd decodes the last bits of a string into out[w:].
func decodeEnd(out, src []byte, bits uint64, n uint, w, limit int) (int, decodeResult) {
	for {
		for n <= 56 && len(src) > 0 {
			bits |= uint64(src[0]) << (56 - n)
			n += 8
			src = src[1:]
		}
		if n < 8 && bits>>(64-n) == 1<<n-1 {
			return w, decodedAll // the rest is padding: less than 8 bits of the EOS code
		}
		symbol, used := byte(0), uint(0)
		padded := bits | ^uint64(0)>>n
		if e := huffmanRoots[padded>>(64-huffmanRoot)]; e != 0 {
			symbol, used = byte(e), uint(e>>16)&15
		} else {
			symbol, used = longCode(uint32(padded >> 32))
		}
		if used == 0 || used > n {
			return w, corrupt
		}
		if w >= limit {
			return w, tooLong
		}
		out[w] = symbol
		w++
		bits <<= used
		n -= used
	}
}

// longCode decodes the long code at the start of bits. used is its length; 0 = invalid.
func longCode(bits uint32) (symbol byte, used uint) {
	for n := huffmanRoot + 1; n <= huffmanLong; n++ {
		if bits < longLimit[n] {
			return huffmanSorted[longSorted[n]+uint8((bits-longFirst[n])>>(32-n))], uint(n)
		}
	}
	return 0, 0
}
