package loop

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// TuneLoopback sets the congestion control of a loopback connection to Reno. Congestion
// control is useless without a network. If BBR is the host's default, it measures and
// paces each write: sending to a container took 0.25 s of CPU time per GB with BBR and
// 0.13 s without it.
func TuneLoopback(fd int, peer netip.Addr) {
	if peer.Unmap().IsLoopback() {
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // Reno is always compiled in, and unprivileged processes may select it
	}
}
