// Package h2 reads and writes HTTP/2 frames and heads, and tracks stream states (RFC
// 9113, RFC 7541, RFC 8441), downstream and upstream. It uses no sockets, goroutines or
// clock. Nothing in it is safe for concurrent use.
//
// # Reading
//
// A connection has a Reader and a Decoder, and a State, a Message and two windows per
// stream. Pass received bytes to Reader.Next until it needs more:
//
//	for len(b) > 0 {
//		n, ok, err := reader.Next(b, &frame)
//		if err != nil {
//			// send GOAWAY with err.Code and close the connection
//		}
//		b = b[n:]
//		if !ok {
//			break // keep b, read more
//		}
//		// count the frame, then process it
//	}
//
// DATA is delivered in pieces as it arrives. Other frames are delivered whole, and
// HEADERS with all their CONTINUATION frames. If Frame.Err is set, only the stream ends,
// and a field block must still be decoded.
//
// Decoder.Decode decodes a field block into a Head owned by the caller, who may reuse it:
// a worker needs one per direction, and a stream that keeps its head copies it
// (Head.CopyFrom). Then CheckRequest, CheckResponse or CheckTrailers applies the rules of
// RFC 9113 section 8.
//
// # Writing
//
// The Append functions append frames to a slice. A field block goes between BeginHeaders
// and EndHeaders, through the connection's Encoder.
//
// # Errors
//
// Each violation by the peer is an *Error, declared once, with the Scope that it ends, an
// error code, and the Fault under which it is counted. State transitions are in
// stream.go, rate limits in meter.go.
//
// # Stricter than the RFC
//
// The limits of Reader and Decoder; control bytes in field values; :path that is not in
// origin form, has a fragment or an invalid percent-encoding; a Host that differs from
// :authority; Content-Length as a list. The fuzz tests contain the complete list of
// messages that x/net accepts and this package rejects.
package h2
