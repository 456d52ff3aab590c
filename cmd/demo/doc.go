// Demo is a small user container to put behind the gate: it echoes, waits,
// streams, counts, and fails on request, so that each of these can be watched
// through the gate with curl.
//
// It is built on net/http rather than fasthttp because h2c, interim
// responses, uploads answered while they arrive, and notice of a client that
// left come with it; the price is that /echo shows field names in canonical
// form and sorted, not as they were spelled.
package main
