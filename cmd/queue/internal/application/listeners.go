package application

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/internal/sockdiag"
)

// listener is a listening TCP socket.
type listener struct {
	address netip.AddrPort
	inode   uint64
}

// reachable reports whether a connection to 127.0.0.1 reaches the listener. It assumes
// that an IPv6 wildcard address accepts IPv4 too, because /proc does not show
// IPV6_V6ONLY.
func (l listener) reachable() bool {
	ip := l.address.Addr().Unmap()
	return ip.IsUnspecified() || ip == netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// takes reports whether the listener accepts connections to 127.0.0.1:port.
func (l listener) takes(port int) bool { return int(l.address.Port()) == port && l.reachable() }

// listeners returns the listening sockets of this network namespace. If sock_diag fails,
// it reads the tables in /proc, which takes milliseconds.
func listeners() (all []listener, err error) {
	if found, err := sockdiag.Listeners(); err == nil {
		for _, s := range found {
			all = append(all, listener{s.Local, s.Inode})
		}
		return all, nil
	}
	return listenersFromTables()
}

func listenersFromTables() (all []listener, err error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if os.IsNotExist(err) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := parseListeners(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", table, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// stateListen is TCP_LISTEN (include/net/tcp_states.h) in /proc/net/tcp.
const stateListen = "0A"

// parseListeners parses /proc/net/tcp or tcp6 (proc(5)): a header line, then one line
// for each socket, with the local address in the 2nd, the state in the 4th and the
// inode in the 10th field.
func parseListeners(table []byte) (found []listener, err error) {
	_, rest, _ := bytes.Cut(table, []byte("\n"))
	for line := range bytes.Lines(rest) {
		fields := bytes.Fields(line)
		if len(fields) < 10 {
			return nil, fmt.Errorf("unexpected line %q", line)
		}
		if string(fields[3]) != stateListen {
			continue
		}
		l := listener{}
		if l.address, err = parseAddress(fields[1]); err != nil {
			return nil, err
		}
		if l.inode, err = strconv.ParseUint(string(fields[9]), 10, 64); err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	return found, nil
}

// parseAddress parses an address of /proc/net/tcp, which is in hexadecimal. For example,
// 0100007F:1F90 is 127.0.0.1:8080 on a little-endian host, because each 32-bit word of
// the IP address is in host byte order.
func parseAddress(text []byte) (netip.AddrPort, error) {
	words, portText, _ := bytes.Cut(text, []byte(":"))
	ip, err := hex.DecodeString(string(words))
	if err != nil {
		return netip.AddrPort{}, err
	}
	for word := ip; len(word) >= 4; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	address, ok := netip.AddrFromSlice(ip)
	port, err := strconv.ParseUint(string(portText), 16, 16)
	if err != nil || !ok {
		return netip.AddrPort{}, fmt.Errorf("unexpected address %q", text)
	}
	return netip.AddrPortFrom(address, uint16(port)), nil
}

// socketsOf returns the inodes of the open sockets of a process.
func socketsOf(pid int) (map[uint64]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	descriptors, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[uint64]bool{}
	for _, d := range descriptors {
		target, err := os.Readlink(dir + "/" + d.Name())
		if err != nil {
			continue // closed
		}
		number, isSocket := strings.CutPrefix(target, "socket:[")
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); isSocket && err == nil {
			inodes[inode] = true
		}
	}
	return inodes, nil
}

// ownerOf returns the name of a process that has the socket open; empty if unknown.
func ownerOf(inode uint64) string {
	for _, pid := range processes() {
		if inodes, err := socketsOf(pid); err == nil && inodes[inode] {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return fmt.Sprintf("%s (pid %d)", bytes.TrimSpace(name), pid)
		}
	}
	return "another process"
}

// listening is a snapshot of the listeners of this network namespace.
type listening struct {
	own    []listener // listeners of the application and its descendants
	others []listener // all other listeners
	// isKnown means that all listeners of the application are known. It is false if the
	// sockets of the application or of a descendant cannot be read. The field others may
	// then include listeners of the application.
	isKnown bool
}

func (a *Process) listening() (l listening, err error) {
	// List sockets before processes, so that the owner of each socket is found.
	all, err := listeners()
	if err != nil {
		return l, err
	}
	below := descendants(os.Getpid())
	l.isKnown = slices.Contains(below, a.pid)
	own := map[uint64]bool{}
	for _, pid := range below {
		inodes, err := socketsOf(pid)
		if err != nil && !os.IsNotExist(err) {
			l.isKnown = false
		}
		for inode := range inodes {
			own[inode] = true
		}
	}
	for _, one := range all {
		if own[one.inode] {
			l.own = append(l.own, one)
		} else {
			l.others = append(l.others, one)
		}
	}
	return l, nil
}

// ports returns the distinct ports of listeners in ascending order.
func ports(list []listener) (found []int) {
	for _, l := range list {
		found = append(found, int(l.address.Port()))
	}
	slices.Sort(found)
	return slices.Compact(found)
}
