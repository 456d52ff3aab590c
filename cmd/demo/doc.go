// Demo is a small user container for trying out the gate: it echoes, waits, streams,
// counts, and fails on request, so that each of these can be observed through the gate
// with curl.
//
// It uses net/http rather than fasthttp because that supports h2c, interim responses,
// responses during an upload, and notification of client disconnects; the disadvantage
// is that /echo shows field names sorted and in canonical form, not as received.
package main
