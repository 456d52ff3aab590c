package h2

// State is where a stream stands (RFC 9113 section 5.1). We never push and
// refuse to be pushed to, so the two reserved states do not occur.
//
//	Idle               HEADERS received or sent        Open
//	Idle, Open         END_STREAM received             HalfClosedRemote
//	Idle, Open         END_STREAM sent                 HalfClosedLocal
//	HalfClosedRemote   END_STREAM sent                 Closed
//	HalfClosedLocal    END_STREAM received             Closed
//	all but Idle       RST_STREAM received, or sent    ResetByPeer, or ResetByUs
//
// Closed, ResetByPeer and ResetByUs are what the RFC calls closed, apart
// because it lets different things follow. Forgotten is closed too, longer ago
// than History goes back, or never used.
type State uint8

// The states.
const (
	Idle State = iota
	Open
	HalfClosedLocal
	HalfClosedRemote
	Closed
	ResetByPeer
	ResetByUs
	Forgotten
	states
)

// Closed reports whether nothing more will be sent or expected.
func (s State) Closed() bool { return s >= Closed }

// CanSend reports whether DATA and HEADERS of ours may still be sent.
func (s State) CanSend() bool { return s == Open || s == HalfClosedRemote }

// Event is a frame that a state has something to say about.
type Event uint8

// The events. HEADERS and DATA with END_STREAM are events of their own.
const (
	OnHeaders Event = iota
	OnHeadersEnd
	OnData
	OnDataEnd
	OnReset
	OnWindowUpdate
	OnPriority
	events
)

// EventOf is the event that a received frame is. It is false for frames that
// no stream has to do with.
func EventOf(f *Frame) (Event, bool) {
	switch f.Type {
	case Headers:
		if f.EndStream {
			return OnHeadersEnd, true
		}
		return OnHeaders, true
	case Data:
		if f.EndStream {
			return OnDataEnd, true
		}
		return OnData, true
	case RSTStream:
		return OnReset, true
	case WindowUpdate:
		return OnWindowUpdate, f.Stream != 0
	case Priority:
		return OnPriority, true
	}
	return 0, false
}

// Action says what a received frame is worth in the state of its stream.
type Action uint8

// The verdicts. A frame that is ignored still counts: DATA towards the window
// of the connection, HEADERS towards the state of the Decoder.
const (
	Accept Action = iota
	Ignore
	EndsStream     // stream error STREAM_CLOSED
	EndsConnection // connection error STREAM_CLOSED
	BreaksProtocol // connection error PROTOCOL_ERROR
)

var (
	errStreamClosed     = streamError(StreamClosed, FaultStreamState, "frame on a stream that its sender has ended")
	errConnectionClosed = connectionError(StreamClosed, FaultStreamState, "frame on a closed stream")
	errStreamIdle       = connectionError(ProtocolError, FaultStreamState, "frame on an idle stream")
)

// Err is the error that a verdict is; nil for Accept and Ignore.
func (v Action) Err() *Error {
	switch v {
	case EndsStream:
		return errStreamClosed
	case EndsConnection:
		return errConnectionClosed
	case BreaksProtocol:
		return errStreamIdle
	}
	return nil
}

type transition struct {
	to     State
	action Action
}

// received holds, by state, what each event leads to, in the order
// HEADERS, HEADERS+END, DATA, DATA+END, RST_STREAM, WINDOW_UPDATE, PRIORITY.
var received = [states][events]transition{
	Idle: {{Open, Accept}, {HalfClosedRemote, Accept}, {Idle, BreaksProtocol}, {Idle, BreaksProtocol},
		{Idle, BreaksProtocol}, {Idle, BreaksProtocol}, {Idle, Accept}},
	Open: {{Open, Accept}, {HalfClosedRemote, Accept}, {Open, Accept}, {HalfClosedRemote, Accept},
		{ResetByPeer, Accept}, {Open, Accept}, {Open, Accept}},
	HalfClosedLocal: {{HalfClosedLocal, Accept}, {Closed, Accept}, {HalfClosedLocal, Accept}, {Closed, Accept},
		{ResetByPeer, Accept}, {HalfClosedLocal, Accept}, {HalfClosedLocal, Accept}},
	HalfClosedRemote: {{ResetByUs, EndsStream}, {ResetByUs, EndsStream}, {ResetByUs, EndsStream}, {ResetByUs, EndsStream},
		{ResetByPeer, Accept}, {HalfClosedRemote, Accept}, {HalfClosedRemote, Accept}},
	Closed: {{Closed, EndsConnection}, {Closed, EndsConnection}, {Closed, EndsConnection}, {Closed, EndsConnection},
		{Closed, Ignore}, {Closed, Ignore}, {Closed, Accept}},
	ResetByPeer: {{ResetByPeer, EndsStream}, {ResetByPeer, EndsStream}, {ResetByPeer, EndsStream}, {ResetByPeer, EndsStream},
		{ResetByPeer, Ignore}, {ResetByPeer, Ignore}, {ResetByPeer, Accept}},
	ResetByUs: {{ResetByUs, Ignore}, {ResetByUs, Ignore}, {ResetByUs, Ignore}, {ResetByUs, Ignore},
		{ResetByUs, Ignore}, {ResetByUs, Ignore}, {ResetByUs, Accept}},
	Forgotten: {{Forgotten, BreaksProtocol}, {Forgotten, BreaksProtocol}, {Forgotten, EndsStream}, {Forgotten, EndsStream},
		{Forgotten, Ignore}, {Forgotten, Ignore}, {Forgotten, Accept}},
}

// Receive is the state after a frame that the peer has sent, and what that is
// worth. A client must not call it for a stream that it has not opened: see
// OurStreams.StateOf.
func (s State) Receive(e Event) (State, Action) {
	step := received[s][e]
	return step.to, step.action
}

// Send is the state after a frame of ours; ok is false if the state does not
// allow to send it.
func (s State) Send(e Event) (to State, ok bool) {
	switch e {
	case OnPriority:
		return s, true
	case OnWindowUpdate:
		return s, s == Open || s == HalfClosedLocal || s == HalfClosedRemote
	case OnReset:
		return ResetByUs, s != Idle && !s.Closed()
	case OnHeaders, OnHeadersEnd:
		if s == Idle {
			s = Open
		}
	}
	end := e == OnHeadersEnd || e == OnDataEnd
	switch {
	case !s.CanSend():
		return s, false
	case !end:
		return s, true
	case s == Open:
		return HalfClosedLocal, true
	}
	return Closed, true
}

// PeerStreams are the streams that a client opens towards us (RFC 9113 section
// 5.1.1).
type PeerStreams struct{ last uint32 }

var errStreamID = connectionError(ProtocolError, FaultProtocol, "stream identifier that the peer may not use")

// Last is the latest stream that was opened: what GOAWAY tells.
func (p *PeerStreams) Last() uint32 { return p.last }

// StateOf is the state of a stream that the engine has no record of. It is an
// error if such a stream cannot be.
func (p *PeerStreams) StateOf(id uint32, h *History) (State, *Error) {
	switch {
	case id%2 == 0:
		return Idle, errStreamID
	case id > p.last:
		return Idle, nil
	}
	return h.stateOf(id), nil
}

// Open notes that HEADERS have opened the idle stream id. Lower ones that are
// idle are closed by that.
func (p *PeerStreams) Open(id uint32) { p.last = id }

// OurStreams are the streams that we open towards the container.
type OurStreams struct{ last uint32 }

// Next is the identifier of the next stream. There is none when the connection
// has used them all up.
func (o *OurStreams) Next() (id uint32, ok bool) {
	switch {
	case o.last == 0:
		o.last = 1
	case o.last >= MaxStreamID:
		return 0, false
	default:
		o.last += 2
	}
	return o.last, true
}

// StateOf is the state of a stream that the engine has no record of, when the
// container sends something on it. It is an error if we never opened it. One
// that is long gone counts as reset by us: cancelling many streams at once must
// not end the connection when their responses come.
func (o *OurStreams) StateOf(id uint32, h *History) (State, *Error) {
	if id%2 == 0 || id > o.last {
		return Idle, errStreamID
	}
	if s := h.stateOf(id); s != Forgotten {
		return s, nil
	}
	return ResetByUs, nil
}

// Exhausted reports that there is no identifier left.
func (o *OurStreams) Exhausted() bool { return o.last >= MaxStreamID }

// History remembers how the streams ended that were closed last: frames that
// were under way when we reset a stream are no fault.
type History struct {
	reset  []uint32 // identifier << 1, and 1 if the peer did it; grows to maxResetHistory
	ended  [8]uint32
	resets uint16 // next place in reset, once it is as long as it gets
	ends   uint8  // next place in ended
}

// maxResetHistory is more than a client may have streams: it may cancel all at
// once.
const maxResetHistory = 512

// Add notes that a stream has come to one of the closed states.
func (h *History) Add(id uint32, how State) {
	switch how {
	case Closed:
		h.ended[h.ends%uint8(len(h.ended))] = id
		h.ends++
	case ResetByPeer:
		h.addReset(id<<1 | 1)
	case ResetByUs:
		h.addReset(id << 1)
	}
}

func (h *History) addReset(r uint32) {
	if len(h.reset) < maxResetHistory {
		h.reset = append(h.reset, r)
		return
	}
	h.reset[h.resets] = r
	h.resets = (h.resets + 1) % maxResetHistory
}

// stateOf is the way in which a stream ended. h may be nil.
func (h *History) stateOf(id uint32) State {
	if h == nil {
		return Forgotten
	}
	for _, r := range h.reset {
		if r>>1 == id {
			return ResetByUs - State(r&1)
		}
	}
	for _, e := range &h.ended {
		if e == id {
			return Closed
		}
	}
	return Forgotten
}
