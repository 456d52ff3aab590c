package remote

import "time"

// How a connection ended, as seen by the container.
const (
	Open   = ""       // it has not ended
	EOF    = "eof"    // the other side closed or half-closed
	Reset  = "reset"  // the other side reset it
	Closed = "closed" // this side closed it
)

// None is an empty argument or result.
type None struct{}

// AcceptArgs limits the wait for a connection.
type AcceptArgs struct{ Timeout time.Duration }

// ReadArgs requests at most Max recorded bytes of a connection and waits for the first
// of them for up to Timeout.
type ReadArgs struct {
	ID, Max int
	Timeout time.Duration
}

// ReadReply is the result of Read. Data holds recorded bytes. If Data is empty because
// the connection has ended, EndKind says how, and EndedAt says when. After a timeout all
// three fields are zero.
type ReadReply struct {
	Data    []byte
	EndKind string
	EndedAt int64
}

// WriteArgs holds bytes to send.
type WriteArgs struct {
	ID   int
	Data []byte
}

// FillArgs requests Bytes of [Pattern] in pieces of Piece bytes, each as one chunk if
// Chunked is set. The caller sends the last chunk.
type FillArgs struct {
	ID      int
	Bytes   int64
	Piece   int
	Chunked bool
}

// PauseArgs stops or resumes reading from a connection.
type PauseArgs struct {
	ID     int
	Paused bool
}

// DrainArgs requests reading a body of Bytes pattern bytes, either chunked (including
// the last chunk, without trailers) or unframed.
type DrainArgs struct {
	ID      int
	Bytes   int64
	Chunked bool
}

// State holds the byte counts of a connection.
type State struct {
	Received, Sent int64
	Unread         int // bytes received that Read has not returned yet
	EndKind        string
	EndedAt        int64
}

// Counts describes all connections since the start.
type Counts struct {
	Accepted  int // connections that the listener has accepted, including those that sent nothing
	Waiting   int // connections that have sent bytes and were not yet returned by Accept
	Responded int // request heads that got the response set by RespondAll
}
