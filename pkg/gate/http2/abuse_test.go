package http2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// rawOpening is how a client of HTTP/2 begins.
const rawOpening = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

func (r *rig) dialRaw() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, rawOpening); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func TestFaultsOfAClientAreCountedAndEndItsConnection(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) {})
	r := newRig(t, up)
	c := r.dialRaw()
	if _, err := io.WriteString(c, "\x00\x00\x04\x08\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00"); err != nil { // a WINDOW_UPDATE of nothing
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("the connection ended with %v", err)
	}
	total := int64(0)
	for _, n := range r.server.Stats().Errors {
		total += n
	}
	if total == 0 {
		t.Errorf("nothing was counted: %v", r.server.Stats().Errors)
	}
	until(t, "no connection", func() bool { return r.server.Stats().Connections == 0 })
}

func TestAClientThatResetsAllItsStreamsIsCutOffAndCounted(t *testing.T) {
	up := startContainer(t, onlyH2C, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r := newRig(t, up)
	c := r.dialRaw()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	// GET / of static fields only, and the authority "x"; then a reset.
	head := "\x82\x86\x84\x01\x01x"
	for id := uint32(1); id < 2*100_000; id += 2 {
		stream := string([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)})
		frames := "\x00\x00\x06\x01\x05" + stream + head + "\x00\x00\x04\x03\x00" + stream + "\x00\x00\x00\x08"
		if _, err := io.WriteString(c, frames); err != nil {
			break
		}
	}
	until(t, "no connection", func() bool { return r.server.Stats().Connections == 0 })
	// Whichever sees it first: the engine, by the streams given up, or the
	// library, by those that wait for a goroutine.
	if e := r.server.Stats().Errors; e["rapid_reset"]+e["conn_ENHANCE_YOUR_CALM_too_many_early_resets"] != 1 {
		t.Errorf("counted %v", e)
	}
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 && r.gate.Drain.Requests() == 0 })
}

func TestAHeadWithTooManyFieldsIsRefused(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	r := newRig(t, up)
	req := r.request("GET", "/", nil)
	for range maxFields + 1 {
		req.Header.Add("X", "y")
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != 431 || res.Header.Get("K-Gate-Outcome") != "head-too-large" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
