// Demo is a small user container for trying out the gate. On request it echoes, waits,
// streams, counts and fails, so that each of these can be observed through the gate
// with curl.
//
// It uses net/http and not fasthttp, because net/http supports h2c, interim responses,
// responses during an upload, and notification of client disconnects. The disadvantage
// is that /echo shows field names sorted and in canonical form, not as received.
package main
