// Demo is a small user container for trying out the gate. On request it echoes, waits,
// streams, counts and fails, so that each of these can be observed through the gate
// with curl.
//
// Because it uses net/http, /echo shows field names sorted and in canonical form, not
// as received.
package main
