// Package otlp delivers messages to collectors: OTLP over HTTP and gRPC, and other
// protocols that POST a message. It has the message types without an SDK.
//
// It runs only in the caller: no goroutine, no timer, and no connection before the
// first message.
package otlp
