package probe

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// health is a gRPC health server: message and status of its answer.
func health(service string, message []byte, status string, trailersOnly bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != "POST", r.URL.Path != healthPath, r.Header.Get("Te") != "trailers",
			r.Header.Get("Content-Type") != "application/grpc", r.Header.Get("Grpc-Timeout") == "",
			string(body) != string(healthRequest(service)):
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if trailersOnly {
			w.Header().Set("Grpc-Status", status)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(message)
		w.Header().Set("Grpc-Status", status)
	})
}

func frame(message ...byte) []byte {
	return append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
}

func TestGRPCHealth(t *testing.T) {
	cases := map[string]struct {
		handler http.Handler
		want    Cause
	}{
		"SERVING":                     {health("s", frame(8, 1), "0", false), Cause{}},
		"SERVING with unknown fields": {health("s", frame(18, 1, 'x', 8, 1, 24, 7), "0", false), Cause{}},
		"NOT_SERVING":                 {health("s", frame(8, 2), "0", false), Cause{Kind: CauseNotServing}},
		"UNKNOWN, an empty message":   {health("s", frame(), "0", false), Cause{Kind: CauseNotServing}},
		"SERVICE_UNKNOWN":             {health("s", frame(8, 3), "0", false), Cause{Kind: CauseNotServing}},
		"no such service":             {health("s", nil, "5", true), Cause{Kind: CauseNotServing, Status: 5}},
		"unavailable, with trailers":  {health("s", nil, "14", false), Cause{Kind: CauseNotServing, Status: 14}},
		"unimplemented":               {health("s", nil, "12", true), Cause{Kind: CauseUnimplemented}},
		"deadline exceeded":           {health("s", nil, "4", true), Cause{Kind: CauseTimeout, Detail: "said by the gRPC server"}},
		"no status":                   {health("s", frame(8, 1), "", false), Cause{Kind: CauseMalformed, Detail: "no gRPC status"}},
		"an odd status":               {health("s", frame(8, 1), "x", false), Cause{Kind: CauseMalformed, Detail: "no gRPC status"}},
		"no message":                  {health("s", nil, "0", false), Cause{Kind: CauseMalformed, Detail: "not a health answer"}},
		"a compressed message":        {health("s", []byte{1, 0, 0, 0, 2, 8, 1}, "0", false), Cause{Kind: CauseMalformed, Detail: "not a health answer"}},
		"half a message":              {health("s", []byte{0, 0, 0, 0, 9, 8, 1}, "0", false), Cause{Kind: CauseMalformed, Detail: "not a health answer"}},
		"a broken message":            {health("s", frame(8), "0", false), Cause{Kind: CauseMalformed, Detail: "not a health answer"}},
		"another HTTP status":         {health("other", nil, "0", false), Cause{Kind: CauseStatus, Status: 400}},
		"an HTTP/2 server":            {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hi")) }), Cause{Kind: CauseMalformed, Detail: "not gRPC"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			port := serveHTTP(t, c.handler, overH2C(false))
			got := probeOnce(t, NewProber(Spec{Kind: GRPC, Host: "127.0.0.1", Port: port, Service: "s"}))
			if got != (Result{Cause: c.want, Reached: true}) {
				t.Errorf("result %+v, want cause %+v", got, c.want)
			}
		})
	}
}

func TestGRPCWithoutAService(t *testing.T) {
	port := serveHTTP(t, health("", frame(8, 1), "0", false), overH2C(false))
	if r := probeOnce(t, NewProber(Spec{Kind: GRPC, Host: "127.0.0.1", Port: port})); r.Cause.Kind != CauseNone {
		t.Errorf("result %+v", r)
	}
}

func TestEachGRPCFailureOfTheConnectionHasItsCause(t *testing.T) {
	at := func(port int) Prober { return NewProber(Spec{Kind: GRPC, Host: "127.0.0.1", Port: port}) }
	if r := probeOnce(t, at(refusingPort(t))); r != (Result{Cause: Cause{Kind: CauseRefused}}) {
		t.Errorf("refused: %+v", r)
	}
	if r := probeBriefly(t, at(serveRaw(t, silent))); r.Cause.Kind != CauseTimeout || !r.Reached {
		t.Errorf("no answer: %+v", r)
	}
	if r := probeOnce(t, at(serveRaw(t, resetting))); r.Cause.Kind != CauseReset {
		t.Errorf("reset: %+v", r)
	}
	if r := probeOnce(t, at(serveRaw(t, hangingUp))); r.Cause.Kind != CauseClosed {
		t.Errorf("closed: %+v", r)
	}
	// net/http's server answers 400 and resets; which comes first is a race.
	if r := probeOnce(t, at(serveHTTP(t, status(200), nil))); r.Cause.Kind != CauseMalformed && r.Cause.Kind != CauseReset {
		t.Errorf("an HTTP/1 server: %+v", r)
	}
	if r := probeOnce(t, at(serveRaw(t, func(c *net.TCPConn) {
		answering("HTTP/1.1 400 Bad Request\r\n\r\n")(c)
		hangingUp(c)
	}))); r.Cause.Kind != CauseMalformed {
		t.Errorf("an HTTP/1 server that hangs up: %+v", r)
	}
}

func TestALongServiceNameIsEncoded(t *testing.T) {
	name := strings.Repeat("x", 300)
	got := string(healthRequest(name))
	if want := "\x00\x00\x00\x01\x2f\x0a\xac\x02" + name; got != want {
		t.Errorf("frame begins %q", got[:10])
	}
}

func FuzzHealthStatus(f *testing.F) {
	f.Add(frame(8, 1))
	f.Add(frame(18, 1, 'x', 8, 1))
	f.Add([]byte{0, 0, 0, 0, 2, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if status, ok := healthStatus(b); !ok && status != 0 {
			t.Errorf("refused with status %d", status)
		}
	})
}
