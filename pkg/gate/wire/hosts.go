package wire

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

type hosts struct {
	sent      []byte // received Host
	original  []byte // K-Original-Host; nil = absent
	origin    []byte // authority of a target in absolute form; nil = none
	numFields int32  // number of Host lines
	untrusted bool   // ignore K-Original-Host
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

// override returns the value that replaces the received Host; nil = the received Host is
// kept. The value is K-Original-Host if it is present and trusted, otherwise the
// authority of the target.
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
