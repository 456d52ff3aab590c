package h2

// State is the state of a stream (RFC 9113 section 5.1). The reserved states do not
// occur, because push is not used.
//
//	state              event                           next state
//	Idle               HEADERS received or sent        Open
//	Idle, Open         END_STREAM received             HalfClosedRemote
//	Idle, Open         END_STREAM sent                 HalfClosedLocal
//	HalfClosedRemote   END_STREAM sent                 Closed
//	HalfClosedLocal    END_STREAM received             Closed
//	all but Idle       RST_STREAM received, or sent    ResetByPeer, or ResetByUs
//
// The RFC has only one closed state. Here it is split into Closed, ResetByPeer and
// ResetByUs, because each of them allows different frames. Forgotten is the state of a
// closed stream that is no longer in History, and of a stream id that was skipped.
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

// Closed reports whether the stream is closed.
func (s State) Closed() bool { return s >= Closed }

// CanSend reports whether the gate may send DATA and HEADERS.
func (s State) CanSend() bool { return s == Open || s == HalfClosedRemote }

// Event is a frame that affects a stream.
type Event uint8

// The events. HEADERS and DATA with END_STREAM are separate events.
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

// EventOf returns the event of a received frame. ok is false for a frame that does not
// belong to a stream.
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

// Action tells how to handle a received frame.
type Action uint8

// The actions. An ignored frame still has an effect on the connection: DATA counts
// towards the connection window, and HEADERS must be decoded, because they change the
// HPACK table.
const (
	Accept Action = iota
	Ignore
	EndsStream     // treat as a stream error of type STREAM_CLOSED
	EndsConnection // treat as a connection error of type STREAM_CLOSED
	BreaksProtocol // treat as a connection error of type PROTOCOL_ERROR
)

var (
	errStreamClosed     = streamError(StreamClosed, FaultStreamState, "frame on a half-closed or reset stream")
	errConnectionClosed = connectionError(StreamClosed, FaultStreamState, "frame on a closed stream")
	errStreamIdle       = connectionError(ProtocolError, FaultStreamState, "frame on an idle stream")
)

// Err returns the error of an action; nil for Accept and Ignore.
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

// received holds the transition for each state and event. Events are in this order:
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

// Receive returns the state after a received frame, and how to handle the frame. It
// assumes that the peer may open an idle stream. If the gate is the client, call
// OurStreams.StateOf first, which rejects idle streams.
func (s State) Receive(e Event) (State, Action) {
	step := received[s][e]
	return step.to, step.action
}

// Send returns the state after a sent frame; ok is false if the state forbids it.
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

// PeerStreams tracks the ids of streams that a client opens (RFC 9113 section 5.1.1).
type PeerStreams struct{ last uint32 }

var errStreamID = connectionError(ProtocolError, FaultProtocol, "stream id that the peer may not use")

// Last returns the highest id of an opened stream, for GOAWAY.
func (p *PeerStreams) Last() uint32 { return p.last }

// StateOf returns the state of a stream that is not in the stream table. The error means
// that the id is invalid.
func (p *PeerStreams) StateOf(id uint32, h *History) (State, *Error) {
	switch {
	case id%2 == 0:
		return Idle, errStreamID
	case id > p.last:
		return Idle, nil
	}
	return h.stateOf(id), nil
}

// Open records that HEADERS have opened the stream id, which closes all idle streams with
// lower ids.
func (p *PeerStreams) Open(id uint32) { p.last = id }

// OurStreams tracks the ids of streams that the gate opens.
type OurStreams struct{ last uint32 }

// Next returns the id of the next stream; ok is false if the ids are exhausted.
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

// StateOf returns the state of a stream that is not in the stream table. It returns an
// error if the gate has not opened a stream with this id. If h does not contain the
// stream, StateOf returns ResetByUs instead of Forgotten, so that frames on the stream
// are ignored. With Forgotten, a late response to a cancelled stream would end the
// connection.
func (o *OurStreams) StateOf(id uint32, h *History) (State, *Error) {
	if id%2 == 0 || id > o.last {
		return Idle, errStreamID
	}
	if s := h.stateOf(id); s != Forgotten {
		return s, nil
	}
	return ResetByUs, nil
}

// Exhausted reports whether no stream id is left.
func (o *OurStreams) Exhausted() bool { return o.last >= MaxStreamID }

// History records how recent streams were closed. Frames that the peer sent before it
// learned of a reset are not errors.
type History struct {
	reset  []uint32  // ids of reset streams, shifted left by 1; bit 0 = reset by peer
	closed [8]uint32 // ring with the ids of the last streams closed without a reset
	resets uint16    // once maxResetHistory ids are stored: index of the oldest one
	ends   uint8     // number of streams closed without a reset, modulo 256
}

// maxResetHistory is the maximum number of reset streams in a History. A client may have
// 250 open streams and cancel all of them at once. All of these must fit.
const maxResetHistory = 512

// Add records that a stream has entered a closed state.
func (h *History) Add(id uint32, state State) {
	switch state {
	case Closed:
		h.closed[h.ends%uint8(len(h.closed))] = id
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

// stateOf returns how a stream was closed. h may be nil.
func (h *History) stateOf(id uint32) State {
	if h == nil {
		return Forgotten
	}
	for _, r := range h.reset {
		if r>>1 == id {
			return ResetByUs - State(r&1)
		}
	}
	for _, e := range &h.closed {
		if e == id {
			return Closed
		}
	}
	return Forgotten
}
