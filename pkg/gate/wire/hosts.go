package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

// hosts are the names that a request gives for its destination.
type hosts struct {
	sent      []byte // Host as it came
	original  []byte // K-Original-Host; nil = there is none
	origin    []byte // authority of an absolute-form target; nil = there is none
	numFields int32  // Host lines
	untrusted bool   // the client's word for another host does not count
}

func (h *hosts) read(v []byte) error {
	if h.numFields++; h.numFields > 1 || len(v) > 0 && !field.IsHost(v) {
		return ErrMalformed
	}
	h.sent = v
	return nil
}

func (h *hosts) readOriginal(v []byte) error {
	if len(v) == 0 || h.original != nil {
		return nil
	}
	if !field.IsHost(v) {
		return ErrMalformed
	}
	h.original = v
	return nil
}

// override is what the container sees as Host: K-Original-Host, else the authority
// of the target; nil = Host as it came. Empty means its address.
func (h *hosts) override() []byte {
	if h.original == nil || h.untrusted {
		return h.origin
	}
	return h.original
}

func (h *hosts) final(address []byte) []byte {
	instead := h.override()
	switch {
	case instead != nil:
		return instead
	case len(h.sent) > 0:
		return h.sent
	}
	return address
}
