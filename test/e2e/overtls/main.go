// Command overtls tests the gate's TLS port by the rules of the plain port. It starts the
// gate and listens on the gate's serving port itself. Each connection of a client, which
// speaks plain text, is forwarded to the TLS port. If QUEUEGATE_BINARY is the path of
// overtls, the tests of package e2e start it instead of the gate.
//
// A FIN of the client becomes a close_notify without a FIN. A close_notify of the gate
// becomes a FIN. A reset stays a reset in both directions.
package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/queuegate/queuegate/test/e2e/infront"
)

func main() {
	infront.Main("overtls", func(client *net.TCPConn, gate infront.Gate) { carry(client, gate.TLS) })
}

// carry forwards bytes, FINs and resets.
func carry(client *net.TCPConn, target string) {
	defer client.Close()
	wire, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer wire.Close()
	gate := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	if gate.Handshake() != nil {
		return
	}
	uploadDone := make(chan struct{})
	go func() {
		defer close(uploadDone)
		if _, err := io.Copy(gate, reader{client}); errors.Is(err, syscall.ECONNRESET) {
			_ = wire.(*net.TCPConn).SetLinger(0)
			_ = wire.Close()
			_ = client.Close()
			return
		}
		_ = gate.CloseWrite() // the gate may have ended
	}()
	if _, err := io.Copy(writer{client}, gate); errors.Is(err, syscall.ECONNRESET) {
		_ = client.SetLinger(0)
		return
	}
	_ = client.CloseWrite()
	<-uploadDone
}

// reader and writer keep io.Copy from using splice, which hides resets.
type (
	reader struct{ io.Reader }
	writer struct{ io.Writer }
)
