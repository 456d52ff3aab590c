// Package admission decides which requests may run: a concurrency limit (fixed, or
// found by AutoLimit), a bounded queue (FIFO, or fair by key and class), and
// deadlines. A Controller may be used without the rest of the gate; a Ticket is the
// slot or queue position of one request.
//
// All methods are safe for concurrent use unless they say otherwise.
package admission
