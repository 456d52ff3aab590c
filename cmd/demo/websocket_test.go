package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The key and its accept value are the example of RFC 6455 section 1.3.
const openHandshake = "GET /ws HTTP/1.1\r\nHost: demo\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// openTunnel opens a WebSocket. The bytes in the argument glued follow the request of the
// handshake in the same write.
func openTunnel(t *testing.T, address string, glued []byte) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := dial(t, address)
	conn.Write(append([]byte(openHandshake), glued...))
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("handshake got %d, %v", res.StatusCode, res.Header)
	}
	return conn, in
}

func masked(first byte, payload []byte) []byte {
	frame := []byte{first}
	switch n := len(payload); {
	case n <= 125:
		frame = append(frame, 0x80|byte(n))
	case n <= 0xffff:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 250}
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	return frame
}

func readFrame(in io.Reader) (first byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	if wide := map[uint64]int{126: 2, 127: 8}[size]; wide > 0 {
		var b [8]byte
		if _, err := io.ReadFull(in, b[8-wide:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(b[:])
	}
	if size > 1<<24 {
		return 0, nil, fmt.Errorf("frame of %d bytes", size)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	return head[0], payload, err
}

func TestWebSocketEchoesMessagesOfEverySizeClass(t *testing.T) {
	conn, in := openTunnel(t, start(t), masked(0x81, []byte("glued to the handshake")))
	expect := func(first byte, payload []byte) {
		t.Helper()
		gotFirst, got, err := readFrame(in)
		if err != nil || gotFirst != first || !bytes.Equal(got, payload) {
			t.Fatalf("frame %#x of %d bytes, %v; want %#x of %d", gotFirst, len(got), err, first, len(payload))
		}
	}
	expect(0x81, []byte("glued to the handshake"))
	for _, size := range []int{0, 1, 125, 126, 0xffff, 0x10000, 1 << 20} {
		payload := bytes.Repeat([]byte("frame"), size/5+1)[:size]
		go conn.Write(masked(0x82, payload))
		expect(0x82, payload)
	}
	conn.Write(masked(0x8a, []byte("an unsolicited pong is ignored")))
	conn.Write(masked(0x89, []byte("ping")))
	expect(0x8a, []byte("ping"))
	conn.Write(masked(0x01, []byte("in two ")))
	conn.Write(masked(0x80, []byte("parts")))
	expect(0x81, []byte("in two parts"))
	conn.Write(masked(0x88, []byte{0x03, 0xe8, 'b', 'y', 'e'}))
	expect(0x88, []byte{0x03, 0xe8, 'b', 'y', 'e'})
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the close frame: %v, want the end", err)
	}
}

func TestFramesThatBreakTheProtocolGetClose1002(t *testing.T) {
	address := start(t)
	for what, frame := range map[string][]byte{
		"reserved bit":         masked(0xc1, nil),
		"unknown opcode":       masked(0x83, nil),
		"stray continuation":   masked(0x80, nil),
		"message in a message": append(masked(0x01, nil), masked(0x81, nil)...),
		"fragmented ping":      masked(0x09, nil),
		"long ping":            masked(0x89, make([]byte, 126)),
	} {
		_, in := openTunnel(t, address, frame)
		first, payload, err := readFrame(in)
		for what == "message in a message" && err == nil && first != 0x88 {
			first, payload, err = readFrame(in)
		}
		if err != nil || first != 0x88 || !bytes.HasPrefix(payload, []byte("\x03\xea")) {
			t.Errorf("%s: frame %#x %q, %v; want a close frame with 1002", what, first, payload, err)
		}
	}
}

func TestAStopClosesWebSocketsOrderly(t *testing.T) {
	address, stop := startStoppable(t)
	conn, in := openTunnel(t, address, nil)
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	first, payload, err := readFrame(in)
	if err != nil || first != 0x88 || string(payload) != "\x03\xe9" {
		t.Errorf("frame %#x %q, %v; want a close frame with 1001", first, payload, err)
	}
	conn.Write(masked(first, payload))
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAnInvalidHandshakeIsRejectedWithAReason(t *testing.T) {
	address := start(t)
	for _, c := range []struct {
		from, to string
		status   int
		want     string
	}{
		{"GET", "POST", 405, "not GET"},
		{"Upgrade: WebSocket", "Upgrade: h2c", 426, "Upgrade header"},
		{"Connection: keep-alive, Upgrade\r\n", "", 426, "Connection header"},
		{"Version: 13", "Version: 8", 400, "version"},
		{"dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=", 400, "Sec-WebSocket-Key"},
	} {
		raw := strings.Replace(openHandshake, c.from, c.to, 1)
		if res, body := exchange(t, address, raw); res.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.to, res.StatusCode, body, c.status, c.want)
		}
	}
}
