package h2

import (
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Name identifies a known field name: its first index in HPACK's static table (RFC 7541
// appendix A), or its position in extraNames. 0 = not known.
type Name uint8

// The names that code refers to.
const (
	NameAuthority          Name = 1
	NameMethod             Name = 2
	NamePath               Name = 4
	NameScheme             Name = 6
	NameStatus             Name = 8
	NameAuthorization      Name = 23
	NameContentLength      Name = 28
	NameContentType        Name = 31
	NameCookie             Name = 32
	NameDate               Name = 33
	NameExpect             Name = 35
	NameHost               Name = 38
	NameProxyAuthorization Name = 49
	NameSetCookie          Name = 55
	NameTransferEncoding   Name = 57
	NameUserAgent          Name = 58
)

// Constants for the first elements of extraNames, in the order of extraNames.
const (
	NameProtocol Name = iota + 1 + staticLen
	NameConnection
	NameKeepAlive
	NameProxyConnection
	NameUpgrade
	NameTE
	NameTrailer
	NameGRPCStatus
	NameGRPCMessage
	NameForwardedFor
)

const staticLen = 61

// static is the static table of RFC 7541 appendix A, from index 1.
var static = func() (t [1 + staticLen]struct{ name, value string }) {
	i := 1
	d := hpack.NewDecoder(0, func(f hpack.HeaderField) { t[i].name, t[i].value = f.Name, f.Value })
	for ; i <= staticLen; i++ {
		_, _ = d.Write([]byte{reprIndexed | byte(i)})
	}
	return t
}()

// extraNames are the known names that the static table of HPACK does not contain. The
// Name of the first one is NameProtocol. The list begins with the names of the constants
// above. Then follow names that field.Of classifies, and names that browsers and gRPC
// often send.
var extraNames = [...]string{
	":protocol", "connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer",
	"grpc-status", "grpc-message", "x-forwarded-for",
	"x-forwarded-proto", "x-forwarded-host", "forwarded", "k-original-host", "k-network-probe", "k-network-hash",
	"k-proxy-request", "knative-serving-namespace", "knative-serving-revision", "knative-serving-tag",
	"knative-serving-default-route", "traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid",
	"x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
	"endpoint-load-metrics-format", "endpoint-load-metrics", "endpoint-load-metrics-bin",
	"grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "grpc-status-details-bin", "x-request-id",
	"sec-fetch-site", "sec-fetch-mode", "sec-fetch-user", "sec-fetch-dest", "sec-ch-ua", "sec-ch-ua-mobile",
	"sec-ch-ua-platform", "upgrade-insecure-requests", "origin", "dnt", "priority", "sec-websocket-version",
	"sec-websocket-key", "sec-websocket-protocol", "sec-websocket-extensions", "sec-websocket-accept",
	"content-security-policy", "x-content-type-options", "x-frame-options", "alt-svc", "server-timing",
	"access-control-allow-methods", "access-control-allow-headers", "access-control-allow-credentials",
}

const (
	nameCount = int(NameProtocol) + len(extraNames)
	nameSlots = 512 // a power of two, large enough that most names take one look-up
)

var (
	staticNames  [1 + staticLen]Name // by index in the static table
	staticValues [nameCount]uint8    // by Name: number of its values in the static table

	names     [nameCount]string
	nameBytes [nameCount][]byte
	nameKinds [nameCount]field.Kind
	slots     [nameSlots]Name
)

func init() {
	for i := range static {
		names[i] = static[i].name
	}
	copy(names[NameProtocol:], extraNames[:])
	for i := 1; i < nameCount; i++ {
		// The static table has some names several times, with different values. Their
		// Name is the first of these indexes.
		if names[i] == names[i-1] {
			staticNames[i] = staticNames[i-1]
			staticValues[staticNames[i]]++
			continue
		}
		if i <= staticLen {
			staticNames[i] = Name(i)
			if static[i].value != "" {
				staticValues[i]++
			}
		}
		nameBytes[i] = []byte(names[i])
		nameKinds[i] = field.Of(nameBytes[i])
		at := nameSlot(nameBytes[i])
		for slots[at] != 0 {
			at = (at + 1) % nameSlots
		}
		slots[at] = Name(i)
	}
}

// String returns the name; "" for 0.
func (n Name) String() string { return names[n] }

// LookupName returns the Name of a field name in any case.
func LookupName(name []byte) Name {
	if len(name) == 0 {
		return 0
	}
	for at := nameSlot(name); ; at = (at + 1) % nameSlots {
		n := slots[at]
		if n == 0 || field.EqualFold(name, names[n]) {
			return n
		}
	}
}

// lookupLower is LookupName for a name in lower case.
func lookupLower(name []byte) Name {
	if len(name) == 0 {
		return 0
	}
	for at := nameSlot(name); ; at = (at + 1) % nameSlots {
		n := slots[at]
		if n == 0 || string(name) == names[n] {
			return n
		}
	}
}

// nameSlot returns the slot at which the search for a name begins. It does not depend on
// the case of the letters. The name must not be empty.
func nameSlot(name []byte) uint32 {
	n := len(name)
	h := uint32(name[0]|0x20) + uint32(name[n-1]|0x20)<<8 + uint32(name[n/2]|0x20)<<16 + uint32(name[n*3/4]|0x20)<<24
	return (h ^ uint32(n)*0x9e3779b1) * 0x85ebca6b >> (32 - 9)
}

func (n Name) isPseudo() bool { return n-1 < NameStatus || n == NameProtocol }
