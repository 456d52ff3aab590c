// Package upstream opens connections to the user container. It decides when to attempt a
// connection, what to do if no descriptor is available, and which protocol to use. It
// also runs TLS handshakes. The connection pools of the protocols are built on it.
package upstream
