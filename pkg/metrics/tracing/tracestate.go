package tracing

import (
	"bytes"
	"slices"
)

// Limits of a tracestate (W3C Trace Context section 3.3.1). A tracestate above these
// limits is not recorded in spans.
const (
	maxTracestate   = 512 // bytes
	maxMembers      = 32
	maxMemberKey    = 256 // maximum length of a key, in bytes
	maxMemberTenant = 241 // maximum length of the tenant in a key with a vendor, in bytes
	maxMemberVendor = 14  // maximum length of the vendor, in bytes
	maxMemberValue  = 256 // maximum length of a value, in bytes
)

// readTracestate returns the tracestate to record in spans. This is the list of its
// members without the white space around them. The result is "" if a member is malformed,
// if two members have the same key, or if a limit is exceeded. The received field itself
// is forwarded unchanged.
func readTracestate(v []byte) string {
	if len(v) == 0 || len(v) > maxTracestate {
		return ""
	}
	text := make([]byte, 0, maxTracestate)
	var room [maxMembers][]byte
	keys := room[:0]
	for member := range bytes.SplitSeq(v, []byte{','}) {
		if member = bytes.Trim(member, " \t"); len(member) == 0 {
			continue // W3C Trace Context section 3.3.1.1 allows empty members
		}
		key, value, _ := bytes.Cut(member, []byte{'='})
		if len(keys) == maxMembers || !isMemberKey(key) || !isMemberValue(value) {
			return ""
		}
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			return ""
		}
		if keys = append(keys, key); len(text) > 0 {
			text = append(text, ',')
		}
		text = append(text, member...)
	}
	return string(text)
}

// isMemberKey reports whether key is valid by W3C Trace Context level 1, section
// 3.3.1.3.1. There a tenant must begin with a letter.
func isMemberKey(key []byte) bool {
	tenant, vendor, found := bytes.Cut(key, []byte{'@'})
	if !found {
		return isMemberName(key, maxMemberKey)
	}
	return isMemberName(tenant, maxMemberTenant) && isMemberName(vendor, maxMemberVendor)
}

func isMemberName(name []byte, longest int) bool {
	if len(name) == 0 || len(name) > longest || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-', c == '*', c == '/':
		default:
			return false
		}
	}
	return true
}

// isMemberValue reports whether value is valid by W3C Trace Context section 3.3.1.3.2. A
// valid value is printable ASCII without comma and equals sign.
func isMemberValue(value []byte) bool {
	if len(value) == 0 || len(value) > maxMemberValue {
		return false
	}
	for _, c := range value {
		if c < ' ' || c > '~' || c == ',' || c == '=' {
			return false
		}
	}
	return true
}
