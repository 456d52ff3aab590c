// Package upstream opens connections to the user container: it decides when to attempt,
// what to do without a descriptor, and which protocol to use, and runs TLS handshakes.
// The pools of the protocols are built on it.
package upstream
