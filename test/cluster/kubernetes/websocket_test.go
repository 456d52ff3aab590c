package kubernetes

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/queuegate/queuegate/test/cluster"
)

// A webSocket is the client's end of a WebSocket (RFC 6455).
type webSocket struct {
	conn   net.Conn
	reader *bufio.Reader
}

func openWebSocket(address string) (*webSocket, error) {
	conn, err := net.DialTimeout("tcp", address, cluster.WaitTimeout)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n")
	w := &webSocket{conn, bufio.NewReader(conn)}
	response, err := http.ReadResponse(w.reader, nil)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("handshake: %s", response.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

// send sends a text of up to 125 bytes with a zero masking key.
func (w *webSocket) send(text string) error {
	_, err := w.conn.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
	return err
}

// receive returns the next frame, which must be short.
func (w *webSocket) receive(timeout time.Duration) (opcode byte, payload []byte, err error) {
	w.conn.SetReadDeadline(time.Now().Add(timeout))
	var head [2]byte
	if _, err := io.ReadFull(w.reader, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, head[1]&0x7f)
	_, err = io.ReadFull(w.reader, payload)
	return head[0] & 0xf, payload, err
}

// closed fails unless the next frame closes the WebSocket with 1001.
func (w *webSocket) closed(timeout time.Duration) error {
	opcode, payload, err := w.receive(timeout)
	switch {
	case err != nil:
		return fmt.Errorf("no close frame: %w", err)
	case opcode != 8 || len(payload) < 2 || binary.BigEndian.Uint16(payload) != 1001:
		return fmt.Errorf("frame %d with %v, not a close frame with 1001", opcode, payload)
	}
	return nil
}
