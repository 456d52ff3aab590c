// Package otlp delivers messages to collectors: OTLP over HTTP and gRPC, and
// anything else that is one POST. It has the message types without an SDK.
//
// A gRPC call is one request of net/http's own HTTP/2 client. Nothing runs
// here but the caller: no goroutine, no timer, no connection before the first
// message.
package otlp
