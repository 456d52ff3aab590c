package conformance

import (
	"encoding/xml"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// h2specReasons are the cases of h2spec that the gate may fail, with reasons. Some cases
// fail only sometimes, because they depend on the order of two frames.
var h2specReasons = map[string]string{
	"http2/3.5 Sends invalid connection preface": "on a port that serves HTTP/1 too, it is a malformed request of HTTP/1: 400 and close",
	"http2/5.1 closed: Sends a HEADERS frame after sending RST_STREAM frame": "the server treats a HEADERS frame on a closed stream as a connection error " +
		"of type STREAM_CLOSED or PROTOCOL_ERROR; other frames may precede it",
	"http2/5.1 closed: Sends a HEADERS frame":                                                                      "same as above",
	"http2/4.2 Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE":                          "the response to the previous request arrives before the error",
	"http2/5.4.1 Sends an invalid PING frame for connection close":                                                 "the server waits a second between GOAWAY and close",
	"http2/6.5.3 Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                            "the server treats a repeated setting as an error of the peer",
	"http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field":                       "the server sends 400 where a reset is required",
	"http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": "same as above",
}

// h2specRounds is the number of times that each case runs. The test counts a case as
// failed only if the case fails every time.
const h2specRounds = 3

func TestH2specFindsNoFaultsBeyondThoseOfGosServer(t *testing.T) {
	t.Parallel()
	binary := judge(t, "github.com/summerwind/h2spec/cmd/h2spec")
	port := serveQuietly(t)
	g := startGate(t, port)
	var alone, gated map[string]bool
	var runs sync.WaitGroup
	runs.Go(func() { alone = h2spec(t, binary, port) })
	runs.Go(func() { gated = h2spec(t, binary, g.port) })
	runs.Wait()
	if t.Failed() {
		return
	}
	if len(gated) > len(alone) {
		t.Errorf("%d cases fail through the gate, %d without it", len(gated), len(alone))
	}
	for name := range gated {
		t.Logf("fails: %s: %s", name, h2specReasons[name])
		if h2specReasons[name] == "" {
			t.Errorf("%s fails, and nothing says why", name)
		}
	}
}

// serveQuietly runs Go's HTTP/2 server without a log of client errors.
func serveQuietly(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", podAddress(0))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }),
		ErrorLog:  log.New(io.Discard, "", 0),
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(ln) }() // returns after Close
	t.Cleanup(func() { _ = s.Close() })
	return ln.Addr().(*net.TCPAddr).Port
}

// h2spec returns the cases that fail in each round.
func h2spec(t *testing.T, binary string, port int) map[string]bool {
	var failed map[string]bool
	for range h2specRounds {
		report := filepath.Join(t.TempDir(), strconv.Itoa(port)+".xml")
		_ = exec.Command(binary, "-h", podIP, "-p", strconv.Itoa(port), "-o", "1", "-j", report).Run() // the exit code is 1 if any case fails
		text, err := os.ReadFile(report)
		if err != nil {
			t.Errorf("h2spec left no report: %v", err)
			return nil
		}
		var suites struct {
			Cases []struct {
				Package string    `xml:"package,attr"`
				Name    string    `xml:"classname,attr"`
				Error   *struct{} `xml:"error"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testsuite>testcase"`
		}
		if err := xml.Unmarshal(text, &suites); err != nil || len(suites.Cases) < 140 {
			t.Errorf("the report of h2spec has %d cases: %v", len(suites.Cases), err)
			return nil
		}
		now := map[string]bool{}
		for _, c := range suites.Cases {
			name := c.Package + " " + c.Name
			if (c.Error != nil || c.Failure != nil) && (failed == nil || failed[name]) {
				now[name] = true
			}
		}
		failed = now
	}
	return failed
}
