// Package h2 reads and writes HTTP/2 frames and heads, and tracks stream states (RFC
// 9113, RFC 7541, RFC 8441), downstream and upstream. It uses no sockets, goroutines or
// clock. Nothing in it is safe for concurrent use.
//
// # Reading
//
// Each connection has a Reader and a Decoder. Each stream has a State, a Message and two
// windows. Pass received bytes to Reader.Next until it needs more:
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
// DATA is delivered in pieces as it arrives. All other frames are delivered whole.
// HEADERS and the CONTINUATION frames that follow are delivered as one frame. If
// Frame.Err is set, only the stream ends. A field block in such a frame must still be
// decoded.
//
// Decoder.Decode decodes a field block into a Head that the caller owns and may reuse. A
// worker needs one Head per direction. A stream that keeps its head copies it with
// Head.CopyFrom. After Decode, call CheckRequest, CheckResponse or CheckTrailers to apply
// the rules of RFC 9113 section 8.
//
// # Writing
//
// The Append functions append frames to a slice. To send a field block, call
// BeginHeaders, append the fields with the connection's Encoder, and call EndHeaders.
//
// # Errors
//
// Each violation by the peer is an *Error, which is declared once. It has an error code,
// the Scope that it ends, and the Fault under which it is counted. State transitions are
// in stream.go. Rate limits are in meter.go.
//
// # Stricter than the RFC
//
// This package also rejects:
//
//   - messages that exceed the limits of Reader and Decoder
//   - control bytes in field values
//   - a :path that is not in origin form, has a fragment or an invalid percent-encoding
//   - a Host that differs from :authority
//   - a Content-Length that is a list
//
// The fuzz tests list all errors for messages that x/net accepts and this package
// rejects.
package h2
