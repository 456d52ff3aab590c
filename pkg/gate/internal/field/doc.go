// Package field classifies the header fields that the gate acts on: connection-specific
// fields, fields that frame or route a message, and fields that only the platform or the
// gate may set. Names are compared case-insensitively (ASCII).
package field
