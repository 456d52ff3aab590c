// Package field knows the fields of HTTP that a gate acts on: those that belong
// to one connection, that frame or route a message, that only the platform or
// the gate may set, and that say something to the gate itself. Both protocol
// engines go by it. Names are compared as ASCII in any case.
package field
