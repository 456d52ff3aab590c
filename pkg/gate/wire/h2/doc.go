// Package h2 turns bytes into HTTP/2 frames, heads and states, and back (RFC
// 9113, RFC 7541, RFC 8441). It serves both directions: towards clients and
// towards the user container. It has no sockets, starts no goroutine and reads
// no clock; nothing in it is safe for concurrent use.
//
// # Reading
//
// A connection owns a Reader, a Decoder and, per stream, a State, a Message
// and two windows. Whatever one read of the socket brought goes through
// Reader.Next until that wants more bytes:
//
//	for len(b) > 0 {
//		n, ok, err := reader.Next(b, &frame)
//		if err != nil {
//			// GOAWAY with err.Code, and the end of the connection
//		}
//		b = b[n:]
//		if !ok {
//			break // keep b, read on
//		}
//		// count, then act on frame
//	}
//
// DATA comes in pieces as it arrives, everything else whole; a field block
// comes whole however many CONTINUATION frames it took. Frame.Err is a fault
// that ends the stream and not the connection: a field block that comes with
// one still has to go through the Decoder.
//
// Decoder.Decode turns a field block into a Head, which belongs to the caller
// and may serve one block after the other: a worker needs one per direction,
// and a stream that has to keep its head takes a copy (Head.CopyFrom). Then
// one of CheckRequest, CheckResponse and CheckTrailers applies the rules of
// RFC 9113 section 8. Fields carry a Name, which stands for the text of a
// known name, and a field.Kind, so that strings are not compared again.
//
// # Writing
//
// The Append functions add frames to a slice of the caller. A field block goes
// between BeginHeaders and EndHeaders, through the connection's Encoder.
//
// # Faults
//
// Whatever the peer did wrong is an *Error, declared once: it says what it
// ends (Scope), with which code, and under which Fault it is counted. State
// transitions are in stream.go, the rates that section L of the contract bounds
// in meter.go.
//
// # Where this is stricter than the RFC demands
//
// The limits of Reader and Decoder; control bytes in field values; :path that
// is not in origin form, has a fragment or a broken percent-encoding; a Host
// that differs from :authority; Content-Length in a list. The fuzz tests hold
// the complete list of what x/net accepts and this package refuses.
package h2
