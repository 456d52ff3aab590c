// Command overtls runs the gate so that all its traffic is over TLS while its clients
// speak plain text: it listens on the serving port and forwards each connection to the
// gate's TLS port. If QUEUEGATE_BINARY names it, the tests of package e2e check the TLS
// port by the rules of the plain one. It converts a client's FIN to a close_notify
// without a FIN, keeps a reset a reset, and does the same in the other direction.
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

// carry forwards bytes, FINs and resets between a plain client and the gate.
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
	up := make(chan struct{})
	go func() {
		defer close(up)
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
	<-up
}

// reader and writer hide the methods with which io.Copy would splice, because splice
// hides resets.
type (
	reader struct{ io.Reader }
	writer struct{ io.Writer }
)
