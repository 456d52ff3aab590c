// Package upstream makes connections to the user container: when an attempt is
// due, what happens without a descriptor, sessions of TLS, and which protocol
// the container speaks. The pools of the protocols are built on it.
package upstream
