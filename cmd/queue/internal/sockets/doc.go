// Package sockets holds the listening sockets of the gate: sockets that the gate opens,
// sockets that a service manager passes to it (sd_listen_fds(3)), and sockets that a
// running gate passes to its successor (`queue upgrade`).
package sockets
