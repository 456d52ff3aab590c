package application

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// The pause between snapshots grows from firstPause to longestPause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

const (
	// settleTime is how long the application may listen only on other ports without a
	// warning. Some applications open a debugger port first.
	settleTime = time.Second

	// portTimeout limits the time in which FindPort tests one port. Connecting may
	// take this time, and the response to an HTTP request may take this time again.
	portTimeout = 500 * time.Millisecond
	// allPortsTimeout is the time that FindPort waits for any of the ports to respond.
	// After it, FindPort returns the lowest port.
	allPortsTimeout = 2 * time.Second

	// silentTime is the time after which FindPort logs that it has found no port.
	silentTime = 10 * time.Second
)

// poll repeatedly takes a snapshot of the listening sockets and passes it to the function
// check. It ends when that function returns true, ctx ends or the process exits.
func (a *Process) poll(ctx context.Context, check func(listening) (done bool)) {
	for pause := firstPause; ; pause = min(pause*5/4, longestPause) {
		l, _ := a.listening() // empty if /proc cannot be read
		if check(l) {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		case <-a.exited:
			return
		}
	}
}

// CheckFree returns an error if a process listens on port. The gate would mistake that
// process for the application.
func CheckFree(port int) error {
	all, err := listeners()
	if err != nil {
		return nil // unknown
	}
	if i := slices.IndexFunc(all, func(l listener) bool { return l.takes(port) }); i >= 0 {
		return fmt.Errorf("port %d (USER_PORT) is taken by %s: end that, or use --user-port with another port or auto", port, ownerOf(all[i].inode))
	}
	return nil
}

// Watch polls until the application listens on port. Meanwhile it warns if the
// application listens on other ports, or another process listens on port.
func (a *Process) Watch(port int, log *zap.Logger) {
	w := watch{port: port, log: log, isWarned: true}
	a.poll(context.Background(), w.check)
}

// watch is the state of Watch.
type watch struct {
	port int
	log  *zap.Logger

	ports      []int     // all ports on which the application listens
	portsSince time.Time // time of the last change of the field ports
	isWarned   bool      // a warning has named these ports, or there are none

	otherInode   uint64 // inode of the last seen listener of another process on this port
	isOtherNamed bool   // a warning has named the process that owns otherInode
}

func (w *watch) check(l listening) (done bool) {
	here, elsewhere := split(l.own, w.port)
	if slices.ContainsFunc(here, listener.reachable) {
		return true
	}
	if l.isKnown && !w.isOtherNamed {
		w.checkOthers(l.others)
	}
	if found := ports(append(here, elsewhere...)); !slices.Equal(found, w.ports) {
		w.ports, w.portsSince, w.isWarned = found, time.Now(), len(found) == 0
	}
	if !w.isWarned && time.Since(w.portsSince) >= settleTime {
		w.isWarned = true
		w.warn(here, elsewhere)
	}
	return false
}

// checkOthers warns of a listener of another process once it has seen the listener
// twice. A listener that it sees for the first time may belong to a new descendant of
// the application.
func (w *watch) checkOthers(others []listener) {
	i := slices.IndexFunc(others, func(l listener) bool { return l.takes(w.port) })
	if i < 0 {
		return
	}
	if w.isOtherNamed = others[i].inode == w.otherInode; w.isOtherNamed {
		w.log.Warn(fmt.Sprintf("another process listens on port %d (USER_PORT) and gets the requests: %s, which the application has not started", w.port, ownerOf(w.otherInode)))
	}
	w.otherInode = others[i].inode
}

// warn logs that the application does not accept connections to 127.0.0.1:port, and where
// it listens instead.
func (w *watch) warn(here, elsewhere []listener) {
	if len(here) > 0 {
		w.log.Warn(fmt.Sprintf("the application listens on %s, where 127.0.0.1:%d does not reach it: let it listen on 127.0.0.1 or on all addresses",
			here[0].address, w.port))
		return
	}
	found := ports(elsewhere)
	w.log.Warn(fmt.Sprintf("the application listens on %s, USER_PORT is %d: use --user-port %d", listed(found), w.port, found[0]))
}

// split separates the listeners on a port from others.
func split(all []listener, port int) (here, elsewhere []listener) {
	for _, l := range all {
		if int(l.address.Port()) == port {
			here = append(here, l)
		} else {
			elsewhere = append(elsewhere, l)
		}
	}
	return here, elsewhere
}

// listed formats ports as "8000, 8001 and 9229".
func listed(ports []int) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, strconv.Itoa(p))
	}
	last := len(texts) - 1
	if last == 0 {
		return texts[0]
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// FindPort waits until the application accepts connections to 127.0.0.1 on any port. If
// the application listens on the port preferred, FindPort returns that port. Otherwise it
// returns the lowest port that responds to an HTTP request. If no port responds within
// 2 s, it returns the lowest port. It returns 0 if ctx or the process ends first.
func (a *Process) FindPort(ctx context.Context, preferred int, log *zap.Logger) (port int) {
	began := time.Now()
	var listeningSince time.Time
	warned := false
	a.poll(ctx, func(l listening) (done bool) {
		reachable := slices.DeleteFunc(slices.Clone(l.own), func(l listener) bool { return !l.reachable() })
		candidates := ports(reachable)
		switch {
		case slices.Contains(candidates, preferred):
			port = preferred
		case len(candidates) > 0:
			if listeningSince.IsZero() {
				listeningSince = time.Now()
			}
			if i := slices.IndexFunc(candidates, responds); i >= 0 {
				port = candidates[i]
			} else if time.Since(listeningSince) >= allPortsTimeout {
				port = candidates[0]
			}
		case len(l.own) > 0 && !warned:
			warned = true
			log.Warn(fmt.Sprintf("the application listens on %s, where 127.0.0.1 does not reach it: let it listen on 127.0.0.1 or on all addresses",
				l.own[0].address))
		case time.Since(began) >= silentTime && !warned:
			warned = true
			log.Warn("the application listens on no port yet, as far as /proc shows: requests wait")
		}
		return port != 0
	})
	return port
}

// ChoosePort returns the preferred port if it is free, otherwise another free port.
func ChoosePort(preferred int) int {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(preferred))
	if err != nil {
		l, err = net.Listen("tcp", ":0")
	}
	if err != nil {
		return preferred
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// responds reports whether a port sends any bytes after an HTTP request.
func responds(port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	conn, err := net.DialTimeout("tcp", address, portTimeout)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(portTimeout))
	if _, err := conn.Write([]byte("HEAD / HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n")); err != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 1))
	return n > 0
}
