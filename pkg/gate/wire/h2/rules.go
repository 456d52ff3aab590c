package h2

import "github.com/queuegate/queuegate/pkg/gate/internal/field"

var pseudoOf = [nameCount]uint8{
	NameMethod: pMethod, NameScheme: pScheme, NameAuthority: pAuthority, NamePath: pPath,
	NameProtocol: pProtocol, NameStatus: pStatus,
}

var (
	errListTooLarge = streamError(EnhanceYourCalm, FaultHeaderBlock, "header list above the limit")
	errName         = malformed("invalid byte in a field name")
	errValue        = malformed("invalid byte in a field value, or leading or trailing white space")
	errPseudo       = malformed("pseudo-field not allowed here")
	errPseudoTwice  = malformed("repeated pseudo-field")
	errPseudoLate   = malformed("pseudo-field after other fields")
	errMethod       = malformed(":method missing or not a token")
	errScheme       = malformed(":scheme missing or invalid")
	errPath         = malformed(":path missing or invalid")
	errAuthority    = malformed(":authority or Host is not a valid host")
	errTwoHosts     = malformed("repeated Host, or Host different from :authority")
	errConnect      = malformed("CONNECT with :scheme or :path, or without :authority")
	errProtocol     = malformed(":protocol without extended CONNECT")
	errConnection   = malformed("connection-specific field")
	errTE           = malformed("TE with a value other than trailers")
	errLength       = malformed("invalid Content-Length, or several with different values")
	errStatus       = malformed(":status missing or invalid")
	errSwitching    = malformed("status 101")
)

// CheckResponse applies the rules for interim and final response heads (RFC 9113
// sections 8.2 and 8.3.2).
func (h *Head) CheckResponse() *Error {
	if err := h.checkFields(1 << pStatus); err != nil {
		return err
	}
	s := h.pseudoValue(pStatus)
	if len(s) != 3 || s[0] < '1' || s[0] > '9' || !field.IsDigit(s[1]) || !field.IsDigit(s[2]) {
		return errStatus
	}
	h.Status = int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	if h.Status == 101 {
		return errSwitching // RFC 9113 section 8.6
	}
	return nil
}

// CheckTrailers applies the rules for trailers (RFC 9113 section 8.1).
func (h *Head) CheckTrailers() *Error { return h.checkFields(0) }

// checkFields applies the rules common to all header lists. allowed is the set of allowed
// pseudo-fields, as bits.
func (h *Head) checkFields(allowed uint) *Error {
	h.Length, h.Status, h.Regular, h.host, h.pseudo = -1, 0, 0, 0, [pseudos]uint8{}
	if h.TooLarge {
		return errListTooLarge
	}
	i := 0
	for ; i < len(h.Fields) && h.Fields[i].Name.isPseudo(); i++ {
		f := &h.Fields[i]
		p := pseudoOf[f.Name]
		switch {
		case allowed>>p&1 == 0:
			return errPseudo
		case h.pseudo[p] != 0:
			return errPseudoTwice
		case f.flags&badValue != 0:
			return errValue
		}
		h.pseudo[p] = uint8(i + 1)
	}
	h.Regular = i
	for ; i < len(h.Fields); i++ {
		f := &h.Fields[i]
		if f.flags&(badName|badValue) == 0 && nameRules[f.Name] == anyField {
			continue
		}
		if err := h.checkField(f, i); err != nil {
			return err
		}
	}
	return nil
}

// Rules for single fields. The method checkField applies them after it has checked the
// bytes of the name and the value.
const (
	anyField uint8 = iota
	pseudoField
	connectionField // RFC 9113 section 8.2.2
	teField
	lengthField
	hostField
)

var nameRules = func() (t [nameCount]uint8) {
	for n := range t {
		if Name(n).isPseudo() {
			t[n] = pseudoField
		}
	}
	for _, n := range []Name{NameConnection, NameKeepAlive, NameProxyConnection, NameTransferEncoding, NameUpgrade} {
		t[n] = connectionField
	}
	t[NameTE], t[NameContentLength], t[NameHost] = teField, lengthField, hostField
	return t
}()

func (h *Head) checkField(f *Field, i int) *Error {
	if f.flags&badName != 0 {
		return errName
	}
	if f.flags&badValue != 0 {
		return errValue
	}
	switch v := h.ValueOf(f); nameRules[f.Name] {
	case pseudoField:
		return errPseudoLate
	case connectionField:
		return errConnection
	case teField:
		if len(v) > 0 && !field.EqualFold(v, "trailers") {
			return errTE
		}
	case lengthField:
		n, ok := field.ReadLength(v)
		if !ok || h.Length >= 0 && n != h.Length {
			return errLength
		}
		h.Length = n
	case hostField:
		if h.host != 0 {
			return errTwoHosts
		}
		h.host = int32(i + 1)
	}
	return nil
}
