package wire

import "github.com/queuegate/queuegate/pkg/gate"

// hosts are the names that a request gives for its destination.
type hosts struct {
	fields   int    // Host lines
	sent     []byte // Host as it came
	original []byte // K-Original-Host
	origin   []byte // authority of an absolute-form target
	instead  []byte // what replaces Host; nil = it goes on as it came
}

func (h *hosts) read(v []byte) error {
	if h.fields++; h.fields > 1 || len(v) > 0 && !gate.IsHost(v) {
		return ErrMalformed
	}
	h.sent = v
	return nil
}

func (h *hosts) readOriginal(v []byte) error {
	if len(v) == 0 || h.original != nil {
		return nil
	}
	if !gate.IsHost(v) {
		return ErrMalformed
	}
	h.original = v
	return nil
}

// choose decides what the container sees as Host: K-Original-Host, else the
// authority of the target, else Host as it came. Empty means its address. It
// reports whether Host is replaced.
func (h *hosts) choose() bool {
	if h.instead = h.original; h.original == nil {
		h.instead = h.origin
	}
	return h.instead != nil
}

func (h *hosts) final(address []byte) []byte {
	switch {
	case h.instead != nil:
		return h.instead
	case len(h.sent) > 0:
		return h.sent
	}
	return address
}

// appendLine appends the line in the place of a Host that is missing or dropped.
func (h *hosts) appendLine(dst, address []byte) []byte {
	if h.instead != nil {
		address = h.instead
	}
	return append(append(append(dst, "Host: "...), address...), "\r\n"...)
}
