// Package sockdiag asks the kernel for TCP sockets of this network namespace
// (sock_diag(7)). It needs a kernel with CONFIG_INET_DIAG. Reading /proc/net/tcp takes
// milliseconds, because the kernel then visits every bucket of its table of connections,
// even the empty ones.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is the state of a TCP socket.
type Socket struct {
	Local, Remote  netip.AddrPort // Remote is 0.0.0.0 or ::, port 0, if the socket is not connected
	State          State
	Inode          uint64
	NumUnread      int // received bytes that the process has not read
	Timer          int // running timer: 0 = none, 2 = keep-alive
	TimerRemaining time.Duration
}

// State is the state of a TCP connection (include/net/tcp_states.h).
type State uint8

// Listening is the state of a socket that accepts connections.
const Listening State = 10

// ErrNotFound is the error of Connection if there is no such connection.
var ErrNotFound = errors.New("no such connection")

// The messages of the kernel (linux/inet_diag.h). Ports and IP addresses are in network
// byte order, and all other fields in host byte order.
type (
	id struct {
		localPort, remotePort [2]byte
		local, remote         [16]byte
		device                uint32
		cookie                [2]uint32
	}
	request struct {
		unix.NlMsghdr
		family, protocol, extensions, _ uint8
		states                          uint32 // bit set of states
		id                              id
	}
	response struct {
		family, state, timer, retransmissions uint8
		id                                    id
		expires                               uint32 // remaining time of timer in ms
		unread, unsent, user, inode           uint32
	}
)

// messageType is SOCK_DIAG_BY_FAMILY (linux/sock_diag.h).
const messageType = 20

// Connection returns one end of a connection over IPv4. The parameter local is the address
// of this end.
func Connection(local, remote netip.AddrPort) (Socket, error) {
	r := request{family: unix.AF_INET, states: math.MaxUint32}
	binary.BigEndian.PutUint16(r.id.localPort[:], local.Port())
	binary.BigEndian.PutUint16(r.id.remotePort[:], remote.Port())
	copy(r.id.local[:], local.Addr().AsSlice())
	copy(r.id.remote[:], remote.Addr().AsSlice())
	r.id.cookie = [2]uint32{math.MaxUint32, math.MaxUint32} // any
	found, err := r.send(0)
	if errors.Is(err, unix.ENOENT) || err == nil && (len(found) != 1 || found[0].State == Listening) {
		return Socket{}, ErrNotFound
	}
	if err != nil {
		return Socket{}, err
	}
	return found[0], nil
}

// Listeners returns all listening sockets.
func Listeners() (all []Socket, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		r := request{family: family, states: 1 << Listening}
		found, err := r.send(unix.NLM_F_DUMP)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// send sends a request and returns the sockets in the response.
func (r *request) send(flags uint16) (found []Socket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	r.protocol = unix.IPPROTO_TCP
	r.Len, r.Type, r.Flags = uint32(unsafe.Sizeof(*r)), messageType, unix.NLM_F_REQUEST|flags
	text := unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
	if err := unix.Sendto(fd, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 1<<15) // the kernel sends at most 32 KiB at a time
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return found, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case m.Header.Type != messageType || len(m.Data) < int(unsafe.Sizeof(response{})):
				return nil, errors.New("unexpected message of sock_diag")
			}
			found = append(found, (*response)(unsafe.Pointer(&m.Data[0])).socket())
		}
		if flags == 0 {
			return found, nil
		}
	}
}

func (r *response) socket() Socket {
	return Socket{
		Local: r.endpoint(r.id.local, r.id.localPort), Remote: r.endpoint(r.id.remote, r.id.remotePort), State: State(r.state),
		Inode: uint64(r.inode), NumUnread: int(r.unread), Timer: int(r.timer), TimerRemaining: time.Duration(r.expires) * time.Millisecond,
	}
}

func (r *response) endpoint(address [16]byte, port [2]byte) netip.AddrPort {
	ip := netip.AddrFrom16(address)
	if r.family == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(address[:4]))
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port[:]))
}
