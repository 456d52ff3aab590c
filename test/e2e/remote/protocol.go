package remote

import "time"

// How a connection ended, as seen by the container.
const (
	Open   = ""       // it has not ended
	EOF    = "eof"    // the other side closed or half-closed
	Reset  = "reset"  // the other side reset it
	Closed = "closed" // this side closed it
)

// None stands for an absent argument or result.
type None struct{}

// AcceptArgs bounds the wait for a connection.
type AcceptArgs struct{ Patience time.Duration }

// ReadArgs asks for at most Max recorded bytes of a connection and waits up to
// Patience for the first of them.
type ReadArgs struct {
	ID, Max  int
	Patience time.Duration
}

// ReadReply carries recorded bytes, or how and when the connection ended.
// Neither means that the time was up.
type ReadReply struct {
	Data    []byte
	Ended   string
	EndedAt int64
}

// WriteArgs carries bytes to send.
type WriteArgs struct {
	ID   int
	Data []byte
}

// FillArgs asks for Bytes of [Pattern] in pieces of Piece bytes, each framed
// as one chunk if Chunked is set (the last chunk is left to the caller).
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

// DrainArgs asks to read a body of Bytes pattern bytes, framed by chunks (up
// to the end of the last one, no trailers) or not at all.
type DrainArgs struct {
	ID      int
	Bytes   int64
	Chunked bool
}

// State counts what has passed over a connection.
type State struct {
	Received, Sent int64
	Unread         int // received and not yet taken by Read
	Ended          string
	EndedAt        int64
}

// Counts describes all connections since the start.
type Counts struct {
	Accepted int // by the listener, silent ones included
	Waiting  int // have sent bytes and were not yet handed out by Accept
	Answered int // heads answered by AnswerAll
}
