package h2

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

func TestKnownFieldNamesAreFoundRegardlessOfCase(t *testing.T) {
	for i := 1; i < nameCount; i++ {
		want := Name(i)
		if i <= staticLen {
			want = staticNames[i]
		}
		name := []byte(names[i])
		if got := lookupLower(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
		if got := LookupName(bytes.ToUpper(name)); got != want {
			t.Errorf("%s is %d, want %d", bytes.ToUpper(name), got, want)
		}
		if lookupLower(append(name, 'x')) != 0 || lookupLower(name[1:]) != 0 && names[lookupLower(name[1:])] != string(name[1:]) {
			t.Errorf("a name similar to %s is found", name)
		}
	}
	for name, want := range map[string]Name{
		":authority": NameAuthority, ":method": NameMethod, ":path": NamePath, ":scheme": NameScheme, ":status": NameStatus,
		"authorization": NameAuthorization, "content-length": NameContentLength, "content-type": NameContentType,
		"cookie": NameCookie, "date": NameDate, "expect": NameExpect, "host": NameHost,
		"proxy-authorization": NameProxyAuthorization, "set-cookie": NameSetCookie, "transfer-encoding": NameTransferEncoding,
		"user-agent": NameUserAgent, ":protocol": NameProtocol, "connection": NameConnection, "keep-alive": NameKeepAlive,
		"proxy-connection": NameProxyConnection, "upgrade": NameUpgrade, "te": NameTE, "trailer": NameTrailer,
		"grpc-status": NameGRPCStatus, "grpc-message": NameGRPCMessage, "x-forwarded-for": NameForwardedFor,
		"": 0, "x": 0, "Host": NameHost,
	} {
		if got := LookupName([]byte(name)); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if lookupLower([]byte("Host")) != 0 {
		t.Error("Host is found by the lookup of lower-case names")
	}
}

// Head.add gives an unknown name the kind field.Other, unless it begins with K-Gate-. So
// all names with other kinds must be known.
func TestTheHTTP2NameTableContainsEveryNameWithAFieldKind(t *testing.T) {
	source, err := os.ReadFile("../../internal/field/kind.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[field.Kind]bool{field.Other: true, field.Gate: true}
	for _, m := range regexp.MustCompile(`"([a-z0-9-]+)"`).FindAllSubmatch(source, -1) {
		name := m[1]
		if k := field.Of(name); k == field.Gate {
			continue
		} else if id := lookupLower(name); id == 0 || nameKinds[id] != k {
			t.Errorf("%s is %d of kind %d, want kind %d", name, id, nameKinds[id], k)
		} else {
			seen[k] = true
		}
	}
	for k := field.Other; k <= field.Gate; k++ {
		if !seen[k] {
			t.Errorf("no name of kind %d was found", k)
		}
	}
}
