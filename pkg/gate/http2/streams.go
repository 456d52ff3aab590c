package http2

import (
	"slices"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// streamTable holds the open streams of a connection, ordered by identifier. Its history
// records how the latest closed streams ended: regularly, or by a reset from either side.
// The type parameter S is *downStream or *upStream.
type streamTable[S tableStream] struct {
	open    []S
	history *h2.History // nil before the first stream ends
}

type tableStream interface {
	comparable
	base() *stream
}

// streamIDs knows which streams have been opened. StateOf returns the state of a stream
// that is not in the streamTable. h2.PeerStreams and h2.OurStreams implement streamIDs.
type streamIDs interface {
	StateOf(id uint32, h *h2.History) (h2.State, *h2.Error)
}

// find returns the open stream with this identifier; nil = none.
func (t *streamTable[S]) find(id uint32) (s S) {
	i, ok := slices.BinarySearchFunc(t.open, id, func(s S, id uint32) int { return int(s.base().id) - int(id) })
	if ok {
		s = t.open[i]
	}
	return s
}

// add adds a stream, whose identifier must be higher than those of all earlier streams.
func (t *streamTable[S]) add(s S) { t.open = append(t.open, s) }

func (t *streamTable[S]) remove(s S) {
	if i := slices.Index(t.open, s); i >= 0 {
		t.open = slices.Delete(t.open, i, i+1)
	}
	t.remember(s.base().id, s.base().state)
}

// remember records how a stream ended.
func (t *streamTable[S]) remember(id uint32, state h2.State) {
	if t.history == nil {
		t.history = new(h2.History)
	}
	t.history.Add(id, state)
}

// receive applies a received frame to the state of its stream. s is nil if the stream is
// not open. If accepted is false and err is nil, the frame must be ignored.
func (t *streamTable[S]) receive(ids streamIDs, f *h2.Frame) (s S, accepted bool, err *h2.Error) {
	event, _ := h2.EventOf(f)
	var none S
	state := h2.Idle
	if s = t.find(f.Stream); s != none {
		state = s.base().state
	} else if state, err = ids.StateOf(f.Stream, t.history); err != nil {
		return s, false, err
	}
	to, action := state.Receive(event)
	if action != h2.Accept {
		return s, false, action.Err()
	}
	if s != none {
		s.base().state = to
	}
	return s, true, nil
}

// changeWindows applies a change of the peer's SETTINGS_INITIAL_WINDOW_SIZE. It wakes
// only streams that were blocked on their window, because a peer may have hundreds of
// streams open.
func (t *streamTable[S]) changeWindows(ch h2.Changes) *h2.Error {
	for _, s := range t.open {
		f := s.base()
		closed := f.send.Credit() == 0
		if err := f.send.ApplySettings(ch); err != nil {
			return err
		}
		if closed && f.sendState != sendIdle && f.send.Credit() > 0 {
			f.x.Wake()
		}
	}
	return nil
}
