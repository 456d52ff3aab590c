package sockets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// An offer is the message with which a running gate passes its sockets to a successor.
// It is sent as one line of JSON. The message carries the descriptors (SCM_RIGHTS) in
// the order of the field Sockets.
type offer struct {
	RefusedReason string    `json:"refused,omitempty"` // reason; "" = not refused
	Sockets       []offered `json:"sockets,omitempty"`
	// Environment has the variables NOTIFY_SOCKET and FDSTORE of the service manager. The
	// successor sets each of them that is missing in its own environment.
	Environment map[string]string `json:"environment,omitempty"`
}

type offered struct {
	Name     string `json:"name"`
	IsStored bool   `json:"held"` // the service manager has the socket
}

// maxOffer is the maximum length of an offer.
const maxOffer = 4 << 10

// Send passes all sockets to the successor at the other end of conn.
func (s *Set) Send(conn *net.UnixConn) error {
	o := offer{Environment: map[string]string{}}
	for _, name := range []string{notifySocket, fdStore} {
		if text := os.Getenv(name); text != "" {
			o.Environment[name] = text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock() // the descriptors must stay open until they are sent
	var fds []int
	for name, sock := range s.all {
		o.Sockets = append(o.Sockets, offered{name, sock.isStored})
		fds = append(fds, sock.fd)
	}
	return o.send(conn, fds)
}

// Refuse tells the successor at the other end of conn why it gets no sockets.
func Refuse(conn *net.UnixConn, reason string) error {
	return offer{RefusedReason: reason}.send(conn, nil)
}

func (o offer) send(conn *net.UnixConn, fds []int) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(append(line, '\n'), rights, nil)
	return err
}

// Receive adds the sockets offered by the running gate at the other end of conn, and
// sets the variables of its service manager.
func (s *Set) Receive(conn *net.UnixConn) error {
	line, fds, err := receive(conn)
	var o offer
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	switch {
	case err != nil:
	case o.RefusedReason != "":
		err = errors.New("the running gate refuses: " + o.RefusedReason)
	case len(o.Sockets) != len(fds):
		err = fmt.Errorf("the running gate has sent %d descriptors, want %d", len(fds), len(o.Sockets))
	}
	if err != nil {
		closeAll(fds)
		return err
	}
	for i, in := range o.Sockets {
		p := portNamed(in.Name)
		if p == nil || checkListening(fds[i], p) != nil { // for example a port that this version does not have
			_ = unix.Close(fds[i])
			continue
		}
		s.all[in.Name] = &socket{port: p, fd: fds[i], isStored: in.IsStored, isInherited: true}
	}
	for name, text := range o.Environment {
		if (name == notifySocket || name == fdStore) && os.Getenv(name) == "" {
			_ = os.Setenv(name, text)
		}
	}
	return nil
}

// receive reads one line and its descriptors.
func receive(conn *net.UnixConn) (line []byte, fds []int, err error) {
	buf, rights := make([]byte, maxOffer), make([]byte, unix.CmsgSpace(4*len(ports)*2))
	for n := 0; ; {
		if n == len(buf) {
			return nil, fds, fmt.Errorf("the running gate has sent more than %d bytes", maxOffer)
		}
		read, control, _, _, err := conn.ReadMsgUnix(buf[n:], rights) // sets close-on-exec
		n += read
		messages, _ := unix.ParseSocketControlMessage(rights[:max(control, 0)])
		for i := range messages {
			more, _ := unix.ParseUnixRights(&messages[i])
			fds = append(fds, more...)
		}
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return buf[:i], fds, nil
		}
		if err == nil && read == 0 {
			err = io.EOF
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the running gate has closed the connection: it may be too old for an upgrade, or ending")
			}
			return nil, fds, err
		}
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
