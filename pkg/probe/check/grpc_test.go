package check

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func TestGRPCHealthResponsesHaveTheirCauses(t *testing.T) {
	cases := map[string]struct {
		handler http.Handler
		want    Cause
	}{
		"SERVING":                     {checktest.Health("s", checktest.Frame(8, 1), "0", false), Cause{}},
		"SERVING with unknown fields": {checktest.Health("s", checktest.Frame(18, 1, 'x', 8, 1, 24, 7), "0", false), Cause{}},
		"NOT_SERVING":                 {checktest.Health("s", checktest.Frame(8, 2), "0", false), Cause{Kind: CauseNotServing}},
		"UNKNOWN, an empty message":   {checktest.Health("s", checktest.Frame(), "0", false), Cause{Kind: CauseNotServing}},
		"SERVICE_UNKNOWN":             {checktest.Health("s", checktest.Frame(8, 3), "0", false), Cause{Kind: CauseNotServing}},
		"no such service":             {checktest.Health("s", nil, "5", true), Cause{Kind: CauseNotServing, Status: 5}},
		"unavailable, with trailers":  {checktest.Health("s", nil, "14", false), Cause{Kind: CauseNotServing, Status: 14}},
		"unimplemented":               {checktest.Health("s", nil, "12", true), Cause{Kind: CauseUnimplemented}},
		"deadline exceeded":           {checktest.Health("s", nil, "4", true), Cause{Kind: CauseTimeout, Detail: "by the gRPC server"}},
		"no status":                   {checktest.Health("s", checktest.Frame(8, 1), "", false), Cause{Kind: CauseMalformed, Detail: "no gRPC status"}},
		"an odd status":               {checktest.Health("s", checktest.Frame(8, 1), "x", false), Cause{Kind: CauseMalformed, Detail: "no gRPC status"}},
		"no message":                  {checktest.Health("s", nil, "0", false), Cause{Kind: CauseMalformed, Detail: "not one uncompressed gRPC message"}},
		"a compressed message":        {checktest.Health("s", []byte{1, 0, 0, 0, 2, 8, 1}, "0", false), Cause{Kind: CauseMalformed, Detail: "not one uncompressed gRPC message"}},
		"half a message":              {checktest.Health("s", []byte{0, 0, 0, 0, 9, 8, 1}, "0", false), Cause{Kind: CauseMalformed, Detail: "not one uncompressed gRPC message"}},
		"a broken message":            {checktest.Health("s", checktest.Frame(8), "0", false), Cause{Kind: CauseMalformed, Detail: "not a health response"}},
		"another HTTP status":         {checktest.Health("other", nil, "0", false), Cause{Kind: CauseStatus, Status: 400}},
		"an HTTP/2 server":            {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hi")) }), Cause{Kind: CauseMalformed, Detail: "not gRPC"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			port := checktest.ServeHTTP(t, c.handler, checktest.OverH2C(false))
			got := probeOnce(t, &GRPC{Address: addressOf(port), Service: "s"})
			if got != (Result{Cause: c.want, Reached: true}) {
				t.Errorf("result %+v, want cause %+v", got, c.want)
			}
		})
	}
}

func TestAGRPCProbeWithoutAServiceSendsAnEmptyServiceName(t *testing.T) {
	port := checktest.ServeHTTP(t, checktest.Health("", checktest.Frame(8, 1), "0", false), checktest.OverH2C(false))
	if r := probeOnce(t, &GRPC{Address: addressOf(port)}); r.Cause.Kind != CauseNone {
		t.Errorf("result %+v", r)
	}
}

func TestEachGRPCConnectionFailureHasItsCause(t *testing.T) {
	at := func(port int) Checker { return &GRPC{Address: addressOf(port)} }
	if r := probeOnce(t, at(checktest.RefusingPort(t))); r != (Result{Cause: Cause{Kind: CauseRefused}}) {
		t.Errorf("refused: %+v", r)
	}
	if r := probeBriefly(t, at(checktest.ServeRaw(t, checktest.Silent))); r.Cause.Kind != CauseTimeout || !r.Reached {
		t.Errorf("no answer: %+v", r)
	}
	if r := probeOnce(t, at(checktest.ServeRaw(t, checktest.Resetting))); r.Cause.Kind != CauseReset {
		t.Errorf("reset: %+v", r)
	}
	if r := probeOnce(t, at(checktest.ServeRaw(t, checktest.HangingUp))); r.Cause.Kind != CauseClosed {
		t.Errorf("closed: %+v", r)
	}
	// net/http's server responds with 400 and then resets the connection. The check
	// sees the response or the reset.
	if r := probeOnce(t, at(checktest.ServeHTTP(t, checktest.Status(200), nil))); r.Cause.Kind != CauseMalformed && r.Cause.Kind != CauseReset {
		t.Errorf("an HTTP/1 server: %+v", r)
	}
	if r := probeOnce(t, at(checktest.ServeRaw(t, func(c *net.TCPConn) {
		checktest.Responding("HTTP/1.1 400 Bad Request\r\n\r\n")(c)
		checktest.HangingUp(c)
	}))); r.Cause.Kind != CauseMalformed {
		t.Errorf("an HTTP/1 server that hangs up: %+v", r)
	}
}

func TestALongServiceNameIsEncoded(t *testing.T) {
	name := strings.Repeat("x", 300)
	got := string(healthRequest(name))
	if want := "\x0a\xac\x02" + name; got != want {
		t.Errorf("message begins %q", got[:10])
	}
}

func FuzzHealthStatus(f *testing.F) {
	f.Add([]byte{8, 1})
	f.Add([]byte{18, 1, 'x', 8, 1})
	f.Add([]byte{8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if status, ok := healthStatus(b); !ok && status != 0 {
			t.Errorf("refused with status %d", status)
		}
	})
}
