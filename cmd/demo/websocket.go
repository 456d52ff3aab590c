package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Opcodes and close codes of RFC 6455 sections 5.2 and 7.4.1.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa

	closeGoingAway     = 1001
	closeProtocolError = 1002
)

var errFrame = errors.New("frame breaks the protocol")

// webSocket takes an RFC 6455 handshake and echoes every data frame as it
// comes, whatever its size, answers pings, and returns the close frame. When
// the container stops it announces the close with 1001.
func (c *container) webSocket(w http.ResponseWriter, r *http.Request) error {
	key, err := handshakeKey(r)
	if err != nil {
		return err
	}
	// Counted before the server stops counting the connection.
	c.tunnels.Add(1)
	defer c.tunnels.Done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		text(w, http.StatusNotImplemented, "WebSocket needs HTTP/1.1\n")
		return nil
	}
	defer conn.Close()

	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	if buffered.Flush() != nil {
		return nil
	}
	// A deadline in the past ends a blocked read or write; the close frame comes
	// from the goroutine that writes, never from another.
	defer context.AfterFunc(c.stopping, func() { conn.SetDeadline(time.Unix(1, 0)) })()

	err = echoFrames(buffered)
	switch {
	case errors.Is(err, errFrame):
		announceClose(conn, buffered.Writer, closeProtocolError)
	case c.stopping.Err() != nil:
		announceClose(conn, buffered.Writer, closeGoingAway)
	}
	return nil
}

// handshakeKey returns Sec-WebSocket-Key of a valid handshake (RFC 6455
// section 4.2.1), or what is wrong with it as a badValue.
func handshakeKey(r *http.Request) (string, error) {
	key := r.Header.Get("Sec-Websocket-Key")
	nonce, err := base64.StdEncoding.DecodeString(key)
	switch {
	case r.Method != http.MethodGet:
		return "", &badValue{"method", r.Method, "GET"}
	case !hasToken(r.Header, "Connection", "upgrade"):
		return "", &badValue{"Connection", r.Header.Get("Connection"), "upgrade"}
	case !hasToken(r.Header, "Upgrade", "websocket"):
		return "", &badValue{"Upgrade", r.Header.Get("Upgrade"), "websocket"}
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return "", &badValue{"Sec-WebSocket-Version", r.Header.Get("Sec-Websocket-Version"), "13"}
	case err != nil || len(nonce) != 16:
		return "", &badValue{"Sec-WebSocket-Key", key, "16 bytes in base64"}
	}
	return key, nil
}

// hasToken looks for a token, in any case, in a comma-separated field.
func hasToken(fields http.Header, name, token string) bool {
	for _, line := range fields.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// echoFrames returns nil after a close frame was answered, errFrame for a
// client that breaks the protocol, and else what ended the connection.
func echoFrames(rw *bufio.ReadWriter) error {
	inMessage := false
	for {
		var head [2]byte
		if _, err := io.ReadFull(rw, head[:]); err != nil {
			return err
		}
		last, opcode, size := head[0]&0x80 != 0, head[0]&0x0f, uint64(head[1]&0x7f)
		if head[0]&0x70 != 0 || head[1]&0x80 == 0 {
			return errFrame // no extension was agreed on, and clients must mask
		}
		switch opcode {
		case opText, opBinary:
			if inMessage {
				return errFrame
			}
			inMessage = !last
		case opContinuation:
			if !inMessage {
				return errFrame
			}
			inMessage = !last
		case opClose, opPing, opPong:
			if !last || size > 125 {
				return errFrame
			}
		default:
			return errFrame
		}

		size, err := readSize(rw, size)
		if err != nil {
			return err
		}
		var mask [4]byte
		if _, err := io.ReadFull(rw, mask[:]); err != nil {
			return err
		}
		payload := &unmasking{from: io.LimitReader(rw, int64(size)), mask: mask}
		if opcode == opPong {
			if _, err := io.CopyN(io.Discard, payload, int64(size)); err != nil {
				return err
			}
			continue
		}
		first := head[0]
		if opcode == opPing {
			first = 0x80 | opPong
		}
		writeFrameHead(rw, first, size)
		if _, err := io.CopyN(rw, payload, int64(size)); err != nil {
			return err
		}
		if err := rw.Flush(); err != nil || opcode == opClose {
			return err
		}
	}
}

// readSize returns the payload size that the seven bits stand for.
func readSize(from io.Reader, bits uint64) (uint64, error) {
	var wide [8]byte
	switch bits {
	case 126:
		_, err := io.ReadFull(from, wide[6:])
		return binary.BigEndian.Uint64(wide[:]), err
	case 127:
		if _, err := io.ReadFull(from, wide[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint64(wide[:])
		if size>>63 != 0 {
			return 0, errFrame
		}
		return size, nil
	}
	return bits, nil
}

// writeFrameHead writes an unmasked head; errors stay in the buffered writer
// and come out at its next flush.
func writeFrameHead(to io.Writer, first byte, size uint64) {
	head := []byte{first}
	switch {
	case size <= 125:
		head = append(head, byte(size))
	case size <= 0xffff:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(size))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), size)
	}
	to.Write(head)
}

// announceClose tries for a second to send a close frame. What a cut frame left
// in the writer goes first; the client then sees the cut.
func announceClose(conn net.Conn, to *bufio.Writer, code uint16) {
	conn.SetDeadline(time.Now().Add(time.Second))
	writeFrameHead(to, 0x80|opClose, 2)
	binary.Write(to, binary.BigEndian, code)
	if to.Flush() == nil {
		// Reading on lets the client take the frame before a reset could.
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			io.Copy(io.Discard, conn)
		}
	}
}

// unmasking undoes the mask of RFC 6455 section 5.3 while it is read.
type unmasking struct {
	from io.Reader
	mask [4]byte
	at   int
}

func (u *unmasking) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	for i := range p[:n] {
		p[i] ^= u.mask[u.at&3]
		u.at++
	}
	return n, err
}
